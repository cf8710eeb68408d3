"""VisualSparta (arXiv 2101.00265): its model, its inputs, and the checkpoints it starts from."""
