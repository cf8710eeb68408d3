"""The papers' figures, each from trained models or runs, by one command: `sparta figure`."""
