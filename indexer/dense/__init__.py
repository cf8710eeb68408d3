"""The dense part of an index: vectors of images, and the text encoder that asks them."""
