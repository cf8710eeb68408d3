"""Typed fields of images: what their metadata says, as columns that filters are evaluated on."""
