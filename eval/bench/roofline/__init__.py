"""What bounds a search in columns: memory or adds, and how far off the bound it is."""
