"""Real proxies with the lines of docs/operations.md, word by word, in front of a server."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from indexer.engines.open import open_index
from tests.proxies import NAME, free_port, proxy
from tests.server.apps import make_key
from tests.server.drawings import index_photos
from tests.server.fake import DRAWINGS
from tests.server.served import served
from tests.server.test_photo_files import photo

TOO_LARGE = 64 * 2**20 + 1  # bytes, for the server
FOR_NONE = 66 * 2**20  # for the proxy, too


@pytest.fixture(scope="module", params=["", "/photos"])
def server(
    request: pytest.FixtureRequest, photos: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, int, str]]:
    """The path below which a server is shown, its port, and a key that may write."""
    folder = tmp_path_factory.mktemp("proxied")
    index, model, _ = index_photos(photos, folder)
    key = make_key(folder / "keys.json", "write")
    options = ["--keys", str(folder / "keys.json"), "--model", str(model)]
    options += ["--set", f"allowed_hosts={NAME}", "--set", "trusted_proxies=127.0.0.1"]
    options += ["--set", f"root_path={request.param}"]
    with served(index, *options) as (address, _):
        yield request.param, httpx.URL(address).port or 80, key


@contextmanager
def browser(port: int, path: str) -> Iterator[httpx.Client]:
    """What a browser sends, from the page at https://photos.example:PORT/PATH."""
    site = f"{NAME}:{port}"
    headers = {"Host": site, "Origin": f"https://{site}", "X-Sparta-Page": "1"}

    def name_site(request: httpx.Request) -> None:
        request.extensions["sni_hostname"] = NAME

    with httpx.Client(
        base_url=f"https://127.0.0.1:{port}{path}/",
        headers=headers,
        verify=False,
        timeout=60,
        event_hooks={"request": [name_site]},
    ) as client:
        for attempt in range(100):
            try:
                client.get("livez")
            except httpx.ConnectError:  # Caddy makes its certificate
                assert attempt < 99
                time.sleep(0.2)
            else:
                break
        yield client


def open_connections(port: int) -> int:
    """Connections to a port of this machine that are open."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(f":{port:04X}" in line.split()[2] and line.split()[3] == "01" for line in lines)


@pytest.mark.parametrize(
    "kind", [pytest.param(one, marks=pytest.mark.needs(one)) for one in ("nginx", "caddy")]
)
def test_the_documented_lines(kind: str, server: tuple[str, int, str], tmp_path: Path) -> None:
    path, backend, key = server
    with proxy(kind, path, backend, tmp_path) as port, browser(port, path) as page:
        start = page.get("")
        assert start.status_code == 200 and "VisualSparta" in start.text
        script = re.search(r'src="([^"]+\.js)"', start.text)
        assert script and page.get(script[1]).status_code == 200
        assert page.get("v1/search", params={"q": "red"}).status_code == 401
        signed = page.post("v1/sign-in", json={"key": key})
        assert signed.status_code == 204, signed.text
        assert "Secure" in signed.headers["Set-Cookie"]
        png = {"Content-Type": "image/png"}
        sent = page.put("v1/images/new/a b.png", content=photo("PNG"), headers=png)
        assert sent.status_code == 200, sent.text
        found = page.get("v1/search", params={"sort": "width", "k": 50}).json()["hits"]
        [url] = [hit["url"] for hit in found if hit["image_id"] == "new/a b.png"]
        assert url.startswith(f"{path}/v1/images/new/")
        small = page.get(f"https://127.0.0.1:{port}{url}".replace("/file", "/thumbnail"))
        assert small.headers["Content-Type"].startswith("image/"), small.text
        large = page.put("v1/images/large", content=bytes(TOO_LARGE))
        assert large.status_code == 413 and "67,108,864 are allowed" in large.json()["detail"]
        assert page.put("v1/images/large", content=bytes(FOR_NONE)).status_code == 413
        if (kind, path) != ("nginx", "/photos"):
            page.get("")
            assert open_connections(backend) > 0  # it stays for the next request


UPSTREAM = f"""
upstream servers {{
    server 127.0.0.1:PORT0 max_fails=0;
    server 127.0.0.1:PORT1 max_fails=0;
    keepalive 8;
}}
server {{
    listen 443 ssl;
    server_name {NAME};
    ssl_certificate /etc/ssl/x/chain.pem;
    ssl_certificate_key /etc/ssl/x/key.pem;
    location / {{
        proxy_pass http://servers;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
    }}
}}
"""


@pytest.mark.needs("nginx")
def test_servers_are_replaced_in_turn_without_a_lost_request(
    drawings: Path, tmp_path: Path
) -> None:
    """As a rolling update does, with searches and writes by POST, which no proxy repeats."""
    index = shutil.copytree(drawings, tmp_path / "index")
    key, ports = make_key(tmp_path / "keys.json", "write"), [free_port(), free_port()]
    options = ["--keys", str(tmp_path / "keys.json"), "--set", "rate=0"]
    options += ["--set", f"allowed_hosts={NAME}", "--set", "trusted_proxies=127.0.0.1"]
    options += ["--set", "drain_seconds=1"]
    lines = UPSTREAM.replace("PORT0", str(ports[0])).replace("PORT1", str(ports[1]))
    stop, answers = Event(), Counter[tuple[str, int]]()

    def start(number: int) -> Any:
        return served(index, *options, "--port", str(ports[number]))

    def ask(port: int, client: int) -> None:
        with browser(port, "") as page:
            page.headers["X-API-Key"] = key
            number = 0
            while not stop.is_set():
                number += 1
                line = json.dumps({"image_id": f"{client}-{number}", "terms": {"red": 1}})
                one = page.post("v1/search", json={"q": "red"})
                answers["search", one.status_code] += 1
                one = page.post("v1/images/batch?refresh=none", content=line)
                answers["write", one.status_code] += 1

    with (
        start(0) as (_, first),
        start(1) as (_, second),
        proxy("nginx", "", 0, tmp_path / "proxy", lines) as port,
        ThreadPoolExecutor(3) as threads,
    ):
        running = [threads.submit(ask, port, client) for client in range(3)]
        try:
            os.kill(first, signal.SIGTERM)
            wait_for_end(first)
            with start(0):
                os.kill(second, signal.SIGTERM)
                wait_for_end(second)
                time.sleep(0.5)
                stop.set()
                for one in running:
                    one.result()
        finally:
            stop.set()
    assert set(answers) == {("search", 200), ("write", 200)}, answers
    with closing(open_index(index)) as searcher:
        assert len(searcher) == len(DRAWINGS) + answers["write", 200]


def wait_for_end(pid: int) -> None:
    """Wait until a process, a child of this one, is a zombie."""
    while ") Z" not in Path(f"/proc/{pid}/stat").read_text():
        time.sleep(0.05)
