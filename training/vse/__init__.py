"""Training dense VSE models: settings, data sets, objectives, Lightning module."""
