"""How fast an index is built from encoded images, and where the time goes."""
