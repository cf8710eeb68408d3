"""How well an excluded word removes the photos that show it, with captions as the truth."""
