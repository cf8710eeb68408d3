"""A page in Firefox, driven by WebDriver BiDi, which Firefox speaks by itself."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.needs import find

PATIENCE = 120.0  # seconds for a command on a busy machine


class FirefoxPage:
    """A page, with the method of Playwright's `Page` that runs a script.

    Args:
        connection: to the browser.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._numbers = connection, count()
        self._send("session.new", capabilities={})
        self._context = self._send("browsingContext.getTree")["contexts"][0]["context"]

    def goto(self, address: str) -> None:
        """Open a page and wait until it is loaded."""
        self._send("browsingContext.navigate", context=self._context, url=address, wait="complete")

    def evaluate(self, function: str, value: Any = None) -> Any:
        """What an asynchronous function of one value returns; values are passed as JSON."""
        declaration = f"async (text) => JSON.stringify(await ({function})(JSON.parse(text)))"
        answer = self._send(
            "script.callFunction",
            functionDeclaration=declaration,
            arguments=[{"type": "string", "value": json.dumps(value)}],
            target={"context": self._context},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer["exceptionDetails"]["text"]
        return json.loads(answer["result"]["value"])

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._connection.recv(PATIENCE))
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                found: dict[str, Any] = answer["result"]
                return found


@contextmanager
def firefox_page(profile: Path) -> Iterator[FirefoxPage]:
    """Start Firefox without a window.

    Args:
        profile: an empty folder.
    """
    command = [find("Firefox"), "--headless", "--no-remote", "--profile", str(profile)]
    process = subprocess.Popen(
        [*command, "--remote-debugging-port", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = next(
            filter(None, (re.search(r"BiDi listening on (\S+)", line) for line in process.stderr))
        )
        with connect(f"{found[1]}/session", max_size=None) as connection:
            yield FirefoxPage(connection)
    finally:
        process.kill()
        process.wait()
