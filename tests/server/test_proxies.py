"""Real proxies with the lines of docs/operations.md, word by word, in front of a server."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.proxies import NAME, proxy
from tests.server.apps import make_key
from tests.server.drawings import index_photos
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


@pytest.mark.parametrize("kind", ["nginx", "caddy"])
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
