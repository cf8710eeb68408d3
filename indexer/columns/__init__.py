"""The in-memory column engine: the postings of an index laid out for sums over blocks of images."""
