"""Serving the shards of an index on a Ray cluster.

Ray Serve places, restarts and replicates; nothing here does. `deploy` is all that starts anything.
"""
