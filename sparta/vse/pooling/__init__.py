"""Poolings: from a set of vectors to one."""
