"""Retrieval by the Crisscrossed Captions: reading the judgements, and measuring by them."""
