"""The commands that need features and models alone."""
