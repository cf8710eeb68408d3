"""Postings in memory as collections, sites of them on hosts of this machine, and their answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from playwright.sync_api import Page

from indexer.grounding import pack_all
from indexer.postings import Postings
from server.publish.collection import Collection, Impacts, ordered
from server.publish.folder import SiteFolder
from server.publish.index import write_index
from server.publish.packs import Shown
from server.publish.publishing import OWN
from sparta.tokenizer import TermTokenizer
from sparta.word_tables import WordTables
from tests.server.publish.firefox import FirefoxPage

# Runs in the browser: opens an index and answers some calls of it, errors as texts. All as JSON,
# which the browser writes much faster than Playwright encodes values.
ANSWERS = """async ([folder, calls, few]) => {
  const { open } = await import("/search/index.js");
  const index = await open(folder);
  index.finder.few = few;
  const answers = [];
  for (const [name, ...values] of calls) {
    try { answers.push(await index[name](...values)); }
    catch (error) { answers.push({ error: error.message, column: error.column ?? null }); }
  }
  return JSON.stringify(answers);
}"""


def collection_of(
    postings: Postings,
    tokenizer: TermTokenizer,
    tables: WordTables | None = None,
    bits: int = 8,
) -> Collection:
    images = sorted(postings, key=lambda image: image.image_id)
    starts = np.cumsum([0, *(len(image.terms) for image in images)])
    terms = np.concatenate([np.empty(0, np.int32), *(image.terms for image in images)])
    values = np.concatenate([np.empty(0, np.int32), *(image.impacts for image in images)])
    impacts = Impacts(starts, terms.astype(np.int32), values.astype(np.uint16))

    def groundings(documents: Sequence[int]) -> list[bytes]:
        chosen = [images[document] for document in documents]
        return pack_all(Postings.of(list(chosen)))

    return Collection(
        tokenizer,
        tables or WordTables(),
        bits,
        [image.image_id for image in images],
        impacts,
        ordered(impacts, len(tokenizer.vocabulary), bits),
        lambda document: images[document].metadata,
        groundings,
    )


def write_script(site: Path) -> None:
    """Put the script that searches into a site."""
    (site / "search").mkdir(parents=True)
    for path in (OWN / "search").glob("*.js"):
        (site / "search" / path.name).write_bytes(path.read_bytes())
    (site / "blank.html").write_text("<!doctype html>")


def publish_collection(folder: Path, collection: Collection, **options: Any) -> None:
    site = SiteFolder(folder)
    shown = [
        Shown(image_id, collection.metadata(document), None)
        for document, image_id in enumerate(collection.ids)
    ]
    write_index(site, collection, shown.__getitem__, **options)
    site.finish()


def answers(
    page: Page | FirefoxPage | NodePage, folder: str, calls: Sequence[Sequence[Any]], few: int = 0
) -> list[Any]:
    """What calls of an index return: names of methods with their values.

    Args:
        page: of the site.
        folder: of the published index.
        calls: of the index, one after the other.
        few: bytes of lists that are fetched whole.
    """
    asked = [f"/{folder}/index/", json.loads(json.dumps(calls)), few]
    found: list[Any] = json.loads(page.evaluate(ANSWERS, asked))
    return found


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


class NodePage:
    """A module of Node.js, with the method of Playwright's `Page` that runs a script.

    Args:
        site: with the script that searches.
        address: of the site's host.
    """

    def __init__(self, site: Path, address: str) -> None:
        (site / "package.json").write_text('{"type": "module"}')
        self._site, self._address = site, address

    def evaluate(self, function: str, value: Any = None) -> Any:
        """What an asynchronous function of one value returns; values are passed as JSON."""
        function = function.replace('import("/', f'import("{self._site.as_uri()}/')
        program = f"""import {{ text }} from "node:stream/consumers";
        globalThis.document = {{ baseURI: {json.dumps(self._address)} }};
        const found = await ({function})(JSON.parse(await text(process.stdin)));
        console.log(JSON.stringify(found));"""
        command = ["node", "--input-type=module", "--eval", program]
        done = subprocess.run(command, input=json.dumps(value), capture_output=True, text=True)
        assert not done.returncode, done.stderr
        return json.loads(done.stdout)
