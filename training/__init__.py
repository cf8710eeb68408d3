"""Data sets, objectives and the training loop."""
