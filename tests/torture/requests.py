"""Hostile and random requests to a server of a tiny index, and checks of every answer."""

import json
import random
import socket
import string
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote, urlsplit

from server.backends import open_backends
from server.settings import ServerSettings
from tests.server.apps import make_key, serving
from tests.torture.kills import Report
from tests.torture.tiny_index import add_vectors, build, make_corpus

CLIENTS = 16
TIMEOUT = 60.0  # seconds
LIVEZ_BOUND = 5.0  # seconds in which /livez answers while the requests run
HEAD_BYTES = 65_536
PROBLEM = "application/problem+json"
NO_ANSWER = b"HTTP/1.1 599 No Answer\r\n\r\n"  # in place of one, and as wrong as any other 5xx


def send_requests(count: int, seed: int, work: Path, report: Report) -> dict[str, Any]:
    """Serve a tiny index and send it so many; returns what happened, and what should not have."""
    corpus, index = make_corpus(work / "corpus"), work / "index"
    build(corpus, index, 5)
    add_vectors(corpus, index)
    keys = work / "keys.json"
    key = make_key(keys, "write")
    with serving(*open_backends(ServerSettings(index=index)), keys=keys, rate=0) as address:
        found = torment(address, count, seed, key)
    report(f"{count} requests, slowest /livez {found['slowest_livez']}")
    return {"requests": count, "seed": seed, **found}


def torment(address: str, requests: int, seed: int = 0, key: str = "none") -> dict[str, Any]:
    """Send requests of the holder of a key, many at once, while /livez is watched.

    Returns:
        answers: status → how many; 0 for connections closed without an answer.
        slowest_livez: milliseconds.
        wrong: a line for every answer that was wrong.
    """
    rng, over, statuses, wrong = random.Random(seed), Event(), Counter[str](), []
    kinds: Sequence[Callable[[random.Random], bytes]] = (
        _search,
        _search,
        _image,
        _malformed,
        _body,
    )
    made = [rng.choice(kinds)(rng).replace(b"KEY", key.encode()) for _ in range(requests)]
    stays = [rng.random() < 0.8 for _ in made]  # the others hang up at once
    with ThreadPoolExecutor(CLIENTS + 1) as pool:
        watch = pool.submit(_watch_livez, address, over)
        answers = pool.map(lambda one: send(address, *one), zip(made, stays, strict=True))
        for request, stay, answer in zip(made, stays, answers, strict=True):
            if stay:
                statuses[str(status_of(answer))] += 1
                if problem := check_answer(answer):
                    wrong.append(f"{request[:120]!r}: {problem}")
        over.set()
    if watch.result() > LIVEZ_BOUND:
        wrong.append(f"/livez took {watch.result():.1f} s")
    slowest = f"{1000 * watch.result():.0f} ms"
    return {"answers": dict(sorted(statuses.items())), "slowest_livez": slowest, "wrong": wrong}


def send(address: str, request: bytes, stay: bool = True) -> bytes:
    """Send bytes, and return the answer or, for a client that does not stay, nothing."""
    url = urlsplit(address)
    target = (str(url.hostname), url.port or 80)
    try:
        with socket.create_connection(target, timeout=TIMEOUT) as connection:
            connection.sendall(request.replace(b"HOST", url.netloc.encode()))
            return _read(connection) if stay else b""
    except ConnectionError:
        return b""  # closed by the server while the request was still being sent
    except TimeoutError:
        return NO_ANSWER


def check_answer(answer: bytes) -> str | None:
    """What is wrong with an answer, None if nothing is."""
    if not answer:
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    headers = dict(line.partition(": ")[::2] for line in lines[1:])
    status = status_of(answer)
    if status >= 500 and (status != 503 or "retry-after" not in headers):
        return f"status {status}"
    if status < 400:
        return None
    if headers.get("content-type") != PROBLEM:
        return f"status {status} with {headers.get('content-type')}"
    try:
        return None if json.loads(body)["status"] == status else "a problem of another status"
    except (ValueError, KeyError, TypeError) as error:
        return f"a problem that cannot be read: {error!r}"


def status_of(answer: bytes) -> int:
    """The status of an answer, 0 for none."""
    parts = answer[:20].split()
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0


def _read(connection: socket.socket) -> bytes:
    """The whole answer; the server closes the connection after it."""
    parts = []
    while part := connection.recv(HEAD_BYTES):
        parts.append(part)
    return b"".join(parts)


def _watch_livez(address: str, over: Event) -> float:
    """The most seconds that /livez took, until the requests are over."""
    slowest = 0.0
    while not over.wait(0.05):
        start = time.perf_counter()
        answer = send(address, _get("/livez"))
        slowest = max(slowest, time.perf_counter() - start)
        if status_of(answer) != 200:
            return float("inf")
    return slowest


# ---- requests ------------------------------------------------------------------------------------


def _get(target: str, *headers: str, method: str = "GET", host: str = "HOST") -> bytes:
    own = [f"Host: {host}", "Connection: close", "Authorization: Bearer KEY"]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *own, *headers, "", ""]).encode()


def _search(rng: random.Random) -> bytes:
    """Long and strange queries, wrong parameters, and the most that may be asked."""
    letters = "".join(rng.choices(string.ascii_lowercase + "  ", k=rng.choice([1, 30, 990, 3000])))
    strange = "".join(chr(rng.randrange(1, 0xD800)) for _ in range(rng.randrange(60)))
    query = quote(rng.choice([letters, letters, strange, "", "\0", "%"]))
    k = rng.choice([1, 10, 1000, 1000, 1000, 0, -1, 10**30, "x"])
    explain = rng.choice(["true", "true", "false", "perhaps"])
    target = f"/v1/search?q={query}&k={k}&explain={explain}"
    return _get(target + rng.choice(["", "", "", "&backend=none", "&q=again"]))


def _image(rng: random.Random) -> bytes:
    """Ids that lead nowhere or out of the folder, bad ranges and conditions."""
    parts = ["..", "%2e%2e", "etc/passwd", "%00", "a.jpg", "%FF", "\\", "%2F", "x" * 300]
    target = "/v1/images/" + "/".join(rng.choices(parts, k=rng.randrange(1, 5)))
    target += rng.choice(["", "/file", "/similar?k=1000&explain=true"])
    headers = ["Range: bytes=9-1", "Range: lines=1", "If-None-Match: *", "If-Modified-Since: x"]
    method = rng.choice(["GET", "GET", "GET", "HEAD", "POST", "DELETE"])
    request = _get(target, *rng.sample(headers, k=rng.randrange(3)), method=method)
    # The answer to HEAD has no body to check.
    return request if method != "HEAD" else request.replace(b"HEAD", b"PUT", 1)


def _body(rng: random.Random) -> bytes:
    """Bodies of JSON that are wrong many times, deep, or of many elements."""
    many = rng.choice([9000, 90_000, 500_000])
    part = rng.choice([b"1", b'"a"', b"[]", b"1" * 40])
    body = rng.choice(
        [
            b'{"ids":[' + b",".join([part] * many) + b",1]}",
            b'{"filter":' + b"[" * many,
            b"{" + b",".join(b'"k%d":1' % number for number in range(many)) + b"}",
            b'{"q":' + b"9" * many + b"}",
        ]
    )
    target = rng.choice(
        ["images/delete", "images/delete", "images/batch", "images/count", "search"]
    )
    headers = ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return _get(f"/v1/{target}", *headers, method="POST") + body


def _malformed(rng: random.Random) -> bytes:
    """No HTTP, too much of it, other hosts, and bodies where none belong."""
    return rng.choice(
        [
            rng.randbytes(200) + b"\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /v1/search?q=" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
            _get("/", host="evil.example"),
            _get("/nowhere"),
            _get("/page/../../secret"),
            _get("/v1/search?q=a", "Content-Length: 5") + b"12345",
            _get("/v1/search?q=a", "Transfer-Encoding: chunked") + b"zz\r\n",
            _get("/livez", "Content-Length: -1"),
        ]
    )
