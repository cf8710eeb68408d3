"""What writing to an index costs, and what its searches notice of it."""
