"""What a cap on the visited superblocks of columns saves, and which hits it costs."""
