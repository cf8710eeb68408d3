"""How fast a VisualSparta of a given size encodes and trains, and what bounds it."""
