"""Bringing an index up to date with a folder of photos."""
