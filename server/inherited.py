"""An index that is opened once, in the first process, for the workers that are forks of it.

They share its memory: the vocabulary, the manifests, the tables of words, and all modules.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from indexer.manifest import is_sharded
from server.backends import Backends
from server.changeover.watch import stamp_of
from server.settings import ServerSettings


class Inherited:
    """Backends that workers begin with, until the index is replaced.

    Attributes:
        backends: of the index as it was when the server started; None once it is another one, so
            that the disk is not kept full with it.

    Args:
        backends: of an index as `can_be_inherited` wants it.
        folder: of the index.
    """

    def __init__(self, backends: Backends, folder: Path) -> None:
        self.backends: Backends | None = backends
        self._folder, self._stamp = folder, stamp_of(folder)

    def prepare(self) -> None:
        """Make and load what workers that are forked afterwards would each make by themselves.

        Raises:
            InputError: if the index is damaged.
        """
        assert self.backends is not None
        self.backends.warm_up()
        import_module("server.preloaded")

    def look(self) -> None:
        """Let the index go if it is not there any more."""
        if self.backends is not None and stamp_of(self._folder) != self._stamp:
            self.backends.close()
            self.backends = None


def can_be_inherited(settings: ServerSettings) -> bool:
    """Whether forks can search an index that was opened before, which Java does not survive."""
    index = settings.index
    return (
        sys.platform == "linux"
        and settings.milvus is None
        and settings.engine != "lucene"
        and not is_sharded(index)
    )


def java_runs() -> bool:
    """Whether opening an index has started Java, as for columns that had to be built."""
    return "jnius" in sys.modules
