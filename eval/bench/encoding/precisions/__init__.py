"""The speed and recall of one model in the runtimes and precisions of this machine's CPU."""
