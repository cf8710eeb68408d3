"""The durable store of an index: segments, the change log, and commits."""
