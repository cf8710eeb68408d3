"""Training of the dense VSE models: objectives, augmentation, loop."""
