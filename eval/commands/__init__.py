"""The commands of `sparta eval`, each in a module of its own that loads torch only when run."""
