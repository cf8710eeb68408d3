"""A real core of Milvus, served over TCP by milvus-lite 2.5.1 in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from indexer.milvus.connection import Milvus
from sparta.errors import InputError
from tests.needs import missing, package

LITE = "2.5.1"  # the last one of the core; later ones are written anew, in Python


def _binaries() -> Path:
    """The folder of the server's program, found without importing the package."""
    package("pymilvus", "milvus")
    try:
        installed = version("milvus-lite") == LITE
    except PackageNotFoundError:
        installed = False
    spec = find_spec("milvus_lite") if installed else None
    if spec is None or not spec.submodule_search_locations:
        missing(f"milvus-lite {LITE}")
    return Path(spec.submodule_search_locations[0]) / "lib"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def milvus_server(folder: Path, port: int | None = None) -> Iterator[str]:
    """Serve the database of a folder, at first an empty one; its URI."""
    binaries, port = _binaries(), port or free_port()
    process = subprocess.Popen(
        [binaries / "milvus", folder / "milvus.db", f"127.0.0.1:{port}", "ERROR"],
        env=os.environ | {"LD_LIBRARY_PATH": str(binaries)},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        uri = f"milvus://127.0.0.1:{port}"
        _wait(uri)
        yield uri
    finally:
        process.kill()
        process.wait()


def _wait(uri: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            # A connection that there was to a former server may be used once more.
            Milvus(uri, seconds=1).call("list_collections")
            return
        except InputError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
