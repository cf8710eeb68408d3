"""The root of an application on a cluster, in a module of its own that loads nothing."""

from typing import Any


class Root:
    """Stands for the application of an index, whose deployments it is bound to.

    Args:
        parts: handles of them.
    """

    def __init__(self, *parts: Any) -> None: ...
