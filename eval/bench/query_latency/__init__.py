"""The speed benchmark: engines side by side over growing collections."""
