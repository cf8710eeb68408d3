"""Term vectors from a dual encoder: VisualSparta without training on captions."""
