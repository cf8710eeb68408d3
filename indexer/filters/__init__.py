"""Filters: one expression, written as text or as JSON, and the images that it lets through."""
