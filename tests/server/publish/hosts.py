"""Hosts of static files on this machine: one that answers range requests, and Python's own."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class PlainHost(SimpleHTTPRequestHandler):
    """What `python -m http.server` is: every answer is a whole file."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class RangeHost(PlainHost):
    """Answers range requests, as usual hosts do, and keeps connections open."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:  # the name that the library calls
        """Answer a request for a file or a part of one."""
        wanted = _RANGE.fullmatch(self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if wanted is None or not path.is_file():
            return super().do_GET()
        size, start = path.stat().st_size, int(wanted[1])
        end = min(size, int(wanted[2]) + 1) if wanted[2] else size
        if start >= end:
            return self.send_error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(end - start)
        self.send_response(HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    """A server that is silent about browsers that close their connections."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of ours alone."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def hosting(folder: Path, ranges: bool = False) -> Iterator[str]:
    """Serve a folder on a free port of this machine; yields its address.

    Args:
        folder: of the files.
        ranges: whether the host answers range requests.
    """
    handler = partial(RangeHost if ranges else PlainHost, directory=str(folder))
    server = _Server(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
