"""Figures: those of the papers, and what in a photo won each term of a query."""
