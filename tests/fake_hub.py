"""A model hub with the paths and headers of the Hugging Face hub, on this machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from urllib.parse import unquote


class HubModel(NamedTuple):
    """A repository: its commits, each a folder; the last one is `main`."""

    commits: Mapping[str, Path]
    status: int = 200  # of its files
    code: str = ""  # of the error
    kind: str = "models"

    def commit(self, revision: str) -> str | None:
        if revision == "main":
            return list(self.commits)[-1]
        return revision if revision in self.commits else None


def serve_hub(models: Mapping[str, HubModel]) -> type[BaseHTTPRequestHandler]:
    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            parts = unquote(self.path.partition("?")[0]).strip("/").split("/")
            if parts[0] == "api":
                return self.describe(parts[1], "/".join(parts[2:4]), parts[5:])
            name, _, file = self.path.strip("/").partition("/resolve/")
            revision, _, path = file.partition("/")
            model = models.get(name)
            if model is None or model.kind != "models":
                return self.answer(404, code="RepoNotFound")
            if model.status != 200:
                return self.answer(model.status, code=model.code)
            if (commit := model.commit(revision)) is None:
                return self.answer(404, code="RevisionNotFound")
            found = model.commits[commit] / path
            if not found.is_file():
                return self.answer(404, code="EntryNotFound", commit=commit)
            self.answer(200, found.read_bytes(), commit=commit)

        def describe(self, kind: str, name: str, rest: list[str]) -> None:
            model = models.get(name)
            if model is None or model.kind != kind:
                return self.answer(404, code="RepoNotFound")
            if model.status not in (200, 403):  # whoever may not read the files may list them
                return self.answer(model.status, code=model.code)
            commit = model.commit(rest[0] if rest else "main")
            if commit is None:
                return self.answer(404, code="RevisionNotFound")
            files = sorted(path.name for path in model.commits[commit].iterdir())
            found = {"id": name, "sha": commit, "siblings": [{"rfilename": one} for one in files]}
            self.answer(200, json.dumps(found).encode())

        def answer(self, status: int, body: bytes = b"", code: str = "", commit: str = "") -> None:
            self.send_response(status)
            for name, value in (("X-Error-Code", code), ("X-Repo-Commit", commit)):
                if value:
                    self.send_header(name, value)
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    return Hub


@contextmanager
def fake_hub(models: Mapping[str, HubModel]) -> Iterator[str]:
    """Serve models by name; yields the address for HF_ENDPOINT."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), serve_hub(models))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
