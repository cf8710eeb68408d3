"""Training VisualSparta: settings, data set, objective, Lightning module."""
