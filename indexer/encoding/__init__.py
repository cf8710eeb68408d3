"""Feature stores and models → term scores; the part of the indexer that needs torch."""
