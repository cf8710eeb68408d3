"""Recall protocols and benchmarks."""
