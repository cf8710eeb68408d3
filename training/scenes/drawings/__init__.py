"""Drawings of the objects in scenes."""
