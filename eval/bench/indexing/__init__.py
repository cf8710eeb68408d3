"""The speed of building an index from encoded images, and of each stage."""
