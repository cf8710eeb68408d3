"""Readers of image features that others extracted, one module a format."""
