"""What pruning and quantising cost."""
