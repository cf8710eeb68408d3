"""Searches in a browser on a slow connection: bytes and times of the first query and the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

import numpy as np
from playwright.sync_api import Browser, CDPSession, sync_playwright

from eval.bench.publishing.hosts import hosting
from eval.bench.publishing.http2 import hosting_http2

HOSTS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "http2": hosting_http2,
    "http1": partial(hosting, ranges=True),
    "whole-files": hosting,
}
MBIT = 1e6 / 8  # bytes a second
# Notes when the first hit is on the page, from the beginning of the navigation.
WATCH = """new MutationObserver((_, watch) => {
  if (!document.querySelector(".card")) return;
  globalThis.firstHit = performance.now();
  watch.disconnect();
}).observe(document, { childList: true, subtree: true })"""
# Searches by the form; the milliseconds until the hits are on the page.
NEXT = """async (text) => {
  document.querySelector("#q").value = text;
  const column = document.querySelector(".column");
  const start = performance.now();
  document.querySelector("#form").requestSubmit();
  while (!column.hasAttribute("aria-busy")) await new Promise(requestAnimationFrame);
  while (column.hasAttribute("aria-busy")) await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""
# The median time of a search whose lists are in memory.
COMPUTE = """async (texts) => {
  const { open } = await import("/search/index.js");
  const index = await open("/index/");
  const options = { k: 20, explain: true };
  const times = [];
  for (const text of texts) for (let i = 0; i < 3; i++) {
    const { timings } = await index.search(text, options);
    if (i === 2) times.push(timings.total_ms + timings.explain_ms);
  }
  return times;
}"""


@dataclass(frozen=True)
class Connection:
    """Of the visitor.

    Attributes:
        mbit: megabits a second.
        latency_ms: that every request waits.
    """

    mbit: float = 10.0
    latency_ms: float = 50.0


def measure_site(
    site: Path,
    queries: Sequence[Sequence[str]],
    browser_path: str,
    connection: Connection,
    host: str,
) -> dict[str, Any]:
    """Open the page for each visit's first query in a new browser profile, then ask the others.

    Args:
        site: the folder.
        queries: of each visit.
        browser_path: of Chromium.
        connection: of the visitor.
        host: of `HOSTS`.

    Returns:
        median and 90th percentile of bytes, requests and milliseconds.
    """
    first: list[dict[str, float]] = []
    later: list[dict[str, float]] = []
    with HOSTS[host](site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
        )
        for visit in queries:
            own = _visit(browser, address, visit, connection)
            first.append(own[0])
            later += own[1:]
        page = browser.new_page(base_url=address, ignore_https_errors=True)
        page.goto("/sw.js")
        compute = page.evaluate(COMPUTE, [visit[0] for visit in queries])
        browser.close()
    return {
        "first": _summary(first),
        "next": _summary(later),
        "compute_ms": {"median": median(compute), "p90": float(np.quantile(compute, 0.9))},
    }


def _visit(
    browser: Browser, address: str, queries: Sequence[str], connection: Connection
) -> list[dict[str, float]]:
    context = browser.new_context(
        base_url=address, service_workers="block", ignore_https_errors=True
    )
    page = context.new_page()
    page.add_init_script(WATCH)
    session = context.new_cdp_session(page)
    traffic = {"bytes": 0.0, "requests": 0.0}
    _throttle(session, connection, traffic)
    page.goto(f"/?q={quote(queries[0])}&k=20")
    page.wait_for_selector(".card", state="attached")
    while page.evaluate("document.querySelector('[aria-busy]') !== null"):
        page.wait_for_timeout(20)
    found = [{**traffic, "ms": page.evaluate("firstHit")}]
    for text in queries[1:]:
        traffic.update(bytes=0, requests=0)
        spent = page.evaluate(NEXT, text)
        found.append({**traffic, "ms": spent})
    context.close()
    return found


def _throttle(session: CDPSession, connection: Connection, traffic: dict[str, float]) -> None:
    """Slow the connection down, and count what comes over it."""

    def finished(event: dict[str, Any]) -> None:
        traffic["bytes"] += event["encodedDataLength"]
        traffic["requests"] += 1

    session.on("Network.loadingFinished", finished)
    session.send("Network.enable")
    limits = {"downloadThroughput": connection.mbit * MBIT, "uploadThroughput": -1}
    session.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": connection.latency_ms, **limits},
    )


def _summary(found: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "median": median(one[name] for one in found),
            "p90": float(np.quantile([one[name] for one in found], 0.9)),
        }
        for name in ("bytes", "requests", "ms")
    }
