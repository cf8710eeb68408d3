"""Grounding: what won each term of a query in an image, and how often that is right."""
