"""Teachers: models whose similarities between photos and sentences VisualSparta learns from."""
