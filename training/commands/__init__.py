"""Commands that draw training data and train models."""
