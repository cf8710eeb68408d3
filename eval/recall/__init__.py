"""Recall of indexes and models by the field's protocols."""
