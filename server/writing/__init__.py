"""Writing to the index that is served: one process, which the workers ask over a socket."""
