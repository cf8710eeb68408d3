"""What a cluster adds to the work: images a second by workers, and the time a block takes."""
