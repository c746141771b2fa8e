"""The caption checker: bytes and a profile in, a report out. No I/O, no clock, no batching."""
