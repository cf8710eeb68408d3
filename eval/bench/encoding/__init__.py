"""The speed of encoding and training a VisualSparta of a given size, and what bounds it."""
