"""Training of VisualSparta: data set, objective, Lightning module."""
