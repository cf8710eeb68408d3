"""Training: settings, data sets, objectives, Lightning modules, and the rendered scenes."""
