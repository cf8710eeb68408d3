"""Training: settings, data sets, objectives and Lightning modules."""
