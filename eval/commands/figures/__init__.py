"""The commands of `sparta figure`, each in a module of its own that loads torch only when run."""
