"""The commands that make training data and train."""
