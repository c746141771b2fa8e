"""Code that people read, run and copy."""
