"""Sizes and times of a published site, measured in a browser."""
