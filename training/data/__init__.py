"""Readers of captioned photos, and the sample corpus of rendered scenes."""
