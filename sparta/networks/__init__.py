"""Vision networks that turn photos, resized to a square, into regions on a grid."""
