"""The commands that build and search an index."""
