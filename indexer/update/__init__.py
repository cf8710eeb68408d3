"""Writing to an index that exists: its one writer, and images encoded as the index's are."""
