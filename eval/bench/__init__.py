"""Benchmarks: query latency, indexing, encoding, serving."""
