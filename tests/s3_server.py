"""A server with the API of S3 on this machine, and folders that are copied into its bucket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUCKET = "s3://bucket"


@contextmanager
def s3_server() -> Iterator[None]:
    """Start it with an empty bucket; clients find it by their environment."""
    from moto.server import ThreadedMotoServer  # imports much

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    _bucket().mkdir(BUCKET)
    try:
        yield
    finally:
        server.stop()


def upload(folder: Path, name: str) -> str:
    """Copy a folder into the bucket.

    Returns:
        its address.
    """
    address = f"{BUCKET}/{name}"
    _bucket().put(f"{folder}/", f"{address}/", recursive=True)
    return address


def _bucket() -> Any:
    import s3fs

    return s3fs.S3FileSystem()
