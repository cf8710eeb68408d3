"""The Lucene index: how it is written and read through Java."""
