"""Image features: the record, the store on disk, extraction from photos."""
