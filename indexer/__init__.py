"""From features to something searchable: impacts, Lucene, searchers."""
