"""Searching an index: the protocols, and everything that answers by them."""
