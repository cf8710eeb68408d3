"""NumPy's files, never unpickled and never mapped into memory."""
