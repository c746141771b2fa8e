"""Recipes for running async_batcher in production. README.md lists them."""
