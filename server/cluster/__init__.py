"""Serving the shards of an index on a Ray cluster.

Ray Serve places, restarts and replicates; nothing here does. `deploy` is all that starts anything.
"""

from typing import Any


class Root:
    """Stands for the application of an index, whose deployments it is bound to.

    It is here since its process loads the module of its class and needs nothing else. `parts` are
    handles of the deployments.
    """

    def __init__(self, *parts: Any) -> None: ...
