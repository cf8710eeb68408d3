"""How alike the collections of the benchmarks and real images are."""
