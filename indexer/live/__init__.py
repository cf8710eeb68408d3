"""What a live index consists of besides its engines: changes, their log, and commits."""
