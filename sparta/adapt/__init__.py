"""Term vectors of dual encoders: VisualSparta's equation 10 with one image vector a photo."""
