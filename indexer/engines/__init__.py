"""Engines: each finds images by plans, over the segments of an index or elsewhere."""
