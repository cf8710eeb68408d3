"""Captions of photos and videos, in any of the formats people have."""
