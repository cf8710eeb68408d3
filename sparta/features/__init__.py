"""Image features: the record and the store on disk."""
