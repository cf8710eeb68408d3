"""Columns of an index that is written to: segments, and the newest images in memory."""
