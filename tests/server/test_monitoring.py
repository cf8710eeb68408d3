"""What a server records: ids of requests, access and slow-query logs, spans, and metrics."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from fastapi.testclient import TestClient
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from server.backends import Backend
from server.monitoring import monitor
from server.monitoring.metrics import Metrics, WriterCounts, forget
from server.monitoring.monitor import JsonLog, open_monitor
from sparta.extras import how_to_install, missing_extra
from tests.documents import ROOT, code_blocks
from tests.needs import find
from tests.server.apps import app_of, client_of, make_key, settings
from tests.server.fake import FakeDense, FakeSearcher


def logged(tmp_path: Path, *paths: str, **values: Any) -> list[dict[str, Any]]:
    """The lines of the log after some requests."""
    log = tmp_path / "log"
    sparta = Backend("sparta", FakeSearcher())
    key, dense = make_key(tmp_path / "keys.json"), Backend("vse++", FakeDense())
    app = app_of(sparta, dense, keys=tmp_path / "keys.json", **values)
    with client_of(app, raise_server_exceptions=False) as client:
        for path in paths:
            client.get(path, headers={"X-Request-ID": "mine", "Authorization": f"Bearer {key}"})
    assert not log.exists() or key not in log.read_text()
    assert not log.exists() or log.stat().st_mode & 0o007 == 0
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_line_a_request_without_queries_and_keys(tmp_path: Path) -> None:
    search = "/v1/search?q=red+secret&explain=true"
    refused = "/v1/images/a%20%22b%0A.png?key=hunter2"
    found = logged(tmp_path, search, refused, access_log=str(tmp_path / "log"))
    assert "secret" not in str(found) and "hunter2" not in str(found)
    first, second = found
    assert first.pop("time") and first.pop("bytes") > 100
    assert first.pop("ms") >= sum(first["stages_ms"].values()) - 1.25  # what the fake one says
    stages = first.pop("stages_ms")
    assert list(stages) == ["queue", "tokenise", "search", "explain"]
    assert (stages["tokenise"], stages["search"]) == (0.25, 1.0)
    assert first == {
        "event": "request",
        "request_id": "mine",
        "client": "127.0.0.1",
        "method": "GET",
        "path": "/v1/search",
        "route": "/v1/search",
        "status": 200,
        "backend": "sparta",
        "engine": "columns",
        "index": "unknown",
    }
    assert (second["status"], second["path"]) == (422, '/v1/images/a "b\n.png')
    assert "stages_ms" not in second


def test_slow_searches_are_logged_with_their_queries(tmp_path: Path) -> None:
    values = {"slow_query_log": str(tmp_path / "log")}
    paths = ["/livez", "/v1/search?q=red&k=3", "/v1/search?q=red&backend=vse%2B%2B"]
    _, dense = found = logged(tmp_path, *paths, slow_query_ms=0.0, **values)
    assert found[0]["event"] == "slow_query"
    assert found[0]["parameters"] == {"q": "red", "k": "3"}
    assert dense["stages_ms"]["encode"] == 12.5
    (tmp_path / "log").unlink()
    assert logged(tmp_path, *paths, slow_query_ms=60_000.0, **values) == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [("a-1.B:2/c=", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ('"', False)],
)
def test_ids_are_taken_over_if_they_need_no_quoting(
    client: TestClient, given: str, kept: bool
) -> None:
    answer = client.get("/livez", headers={"X-Request-ID": given})
    assert (answer.headers["x-request-id"] == given) is kept


def write(path: str, action: Callable[[JsonLog], None]) -> float:
    """Let a log be written in an event loop; returns how many lines were lost."""
    metrics = Metrics()

    async def run() -> None:
        log = JsonLog(path, metrics.lost_lines)
        action(log)
        await asyncio.sleep(3 * monitor.DELAY)
        log.close()

    asyncio.run(run())
    found = re.search(r"^visualsparta_log_lines_lost_total (\S+)$", metrics.text().decode(), re.M)
    assert found
    return float(found[1])


def test_lines_are_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "access.jsonl"
    path.write_text('{"event":"older"}\n')
    written = os.write
    monkeypatch.setattr(os, "write", lambda file, data: written(file, data[:1000]))

    def many(log: JsonLog) -> None:
        for number in range(100):
            log.write("request", {"number": number, "text": 'line\n"break" é' * 9})

    assert write(str(path), many) == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("number") for line in lines] == [None, *range(100)]
    assert lines[1]["time"][10] == "T" and lines[1]["time"][-1] == "Z"
    assert lines[-1]["text"] == 'line\n"break" é' * 9


def test_a_full_disk_loses_lines_and_nothing_else() -> None:
    def two(log: JsonLog) -> None:
        log.write("request", {})
        log.write("request", {})

    assert write("/dev/full", two) == 2


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("logrotate", marks=pytest.mark.needs("logrotate")),
        "rename",
        "rename and create",
        "delete",
    ],
)
def test_a_log_is_opened_again_after_it_was_moved(tmp_path: Path, how: str) -> None:
    """By hand, or by the lines that the operations page has for logrotate."""
    folder = tmp_path / "logs"
    folder.mkdir()
    path, moved = folder / "access.log", folder / "access.log.1"

    def rotate() -> None:
        if how == "logrotate":
            [lines] = code_blocks(ROOT / "docs/operations.md", "logrotate")
            config = tmp_path / "conf"
            config.write_text(lines.replace("/var/log/visualsparta", str(folder)))
            config.chmod(0o644)
            command = [
                find("logrotate"),
                "--force",
                "--state",
                str(tmp_path / "state"),
                str(config),
            ]
            subprocess.run(command, check=True)
        elif how == "delete":
            path.unlink()
        else:
            path.rename(moved)
        if how == "rename and create":
            path.touch(0o600)

    async def run() -> None:
        log = JsonLog(str(path), Metrics().lost_lines)
        for number in range(3):
            log.write("request", {"number": number})
            log.flush()
            if number == 1:
                rotate()
        log.close()

    asyncio.run(run())
    numbers = [json.loads(line)["number"] for line in path.read_text().splitlines()]
    assert numbers == [2]
    if how != "delete":
        assert [json.loads(line)["number"] for line in moved.read_text().splitlines()] == [0, 1]


TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Collector(BaseHTTPRequestHandler):
    """Takes spans."""

    found: list[ResourceSpans]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.found.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
        assert self.path == "/v1/traces"
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ResourceSpans]]:
    Collector.found = []
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield Collector.found
        server.shutdown()
        thread.join()


def traced(*paths: str) -> None:
    app = app_of(Backend("sparta", FakeSearcher()), tracing=True)
    with client_of(app, raise_server_exceptions=False) as client:
        for path in paths:
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "mine"}
            client.get(path, headers=headers)


def spans_of(found: list[ResourceSpans]) -> list[Span]:
    return [span for one in found for scope in one.scope_spans for span in scope.spans]


def test_health_checks_have_no_spans(collected: list[ResourceSpans]) -> None:
    traced("/livez", "/readyz", "/v1/backends")
    assert [span.name for span in spans_of(collected)] == ["GET /v1/backends"]


def test_a_search_is_a_span_with_its_stages(collected: list[ResourceSpans]) -> None:
    traced("/v1/search?q=secret&explain=true")
    spans = {span.name: span for span in spans_of(collected)}
    root = spans.pop("GET /v1/search")
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    attributes = {one.key: one.value for one in root.attributes}
    assert attributes["http.response.status_code"].int_value == 200
    assert attributes["visualsparta.request_id"].string_value == "mine"
    assert attributes["visualsparta.engine"].string_value == "columns"
    assert "secret" not in str(collected)
    stages = ["queue", "tokenise", "search", "explain"]
    assert sorted(spans) == sorted(stages)
    assert {span.parent_span_id for span in spans.values()} == {root.span_id}
    search = spans["search"]
    assert search.end_time_unix_nano - search.start_time_unix_nano == 1_000_000
    assert root.start_time_unix_nano == spans["queue"].start_time_unix_nano
    service = {one.key: one.value.string_value for one in collected[0].resource.attributes}
    assert service["service.name"] == "visualsparta"


def test_errors_and_names(collected: list[ResourceSpans], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "photos")
    traced("/v1/search?q=explode", "/v1/backends")
    failed, well = [span for span in spans_of(collected) if span.name.startswith("GET")]
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert well.status.code == Status.STATUS_CODE_UNSET
    assert "photos" in str(collected[0].resource)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ModuleNotFoundError) as refused:
        open_monitor(settings(tracing=True), Metrics())
    assert how_to_install("tracing") in str(missing_extra(refused.value))


# Counts so many searches, leaves one running, prints what it sees, and dies.
WORKER = """
import os, signal, sys
from pathlib import Path
from server.monitoring.metrics import Metrics, share

folder, worker, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
share(folder, worker)
metrics = Metrics(worker, folder)
for _ in range(count):
    metrics.search("sparta", "columns", 0.3)
metrics.refused.inc(count)
metrics.work(worker + 1, 0)
metrics.index(5, 100, 1.5)
metrics.measure_memory()
sys.stdout.write(metrics.text().decode())
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder: Path, worker: int, count: int) -> dict[str, float]:
    """What a process of this number prints at its end."""
    command = [sys.executable, "-c", WORKER, str(folder), str(worker), str(count)]
    printed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert printed.returncode == -9, printed.stderr
    return samples(printed.stdout)


def samples(text: str) -> dict[str, float]:
    found = re.findall(r"^visualsparta_(\S+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


COUNT = 'search_duration_seconds_count{backend="sparta",engine="columns"}'


def test_counts_survive_their_processes_and_never_fall(tmp_path: Path) -> None:
    first = run(tmp_path, 0, 3)
    assert first[COUNT] == first["searches_refused_total"] == 3
    assert first["searches_running"] == 1
    second = run(tmp_path, 1, 2)
    assert second[COUNT] == second["searches_refused_total"] == 5
    assert second["searches_running"] == 3  # of a process that was killed and nobody missed yet
    assert second['index_images{worker="0"}'] == second['index_images{worker="1"}'] == 5
    assert second['process_resident_memory_bytes{worker="1"}'] > 1e6
    files = set(tmp_path.iterdir())
    forget(tmp_path, 0)
    forget(tmp_path, 1)
    replaced = run(tmp_path, 0, 1)
    assert replaced[COUNT] == replaced["searches_refused_total"] == 6
    assert replaced["searches_running"] == 1
    assert 'index_images{worker="1"}' not in replaced
    assert set(tmp_path.iterdir()) < files


def test_what_the_writer_did_since_the_last_look_is_counted() -> None:
    metrics = Metrics()
    for counts in (
        WriterCounts(2, 0.5, 7),
        WriterCounts(2, 0.5, 7),
        WriterCounts(5, 0.75, 9, 1, 3),
    ):
        metrics.writer(counts)
    found = samples(metrics.text().decode())
    names = ("commits", "commit_seconds", "images_written", "images_deleted", "segments_merged")
    assert [found[f"index_{name}_total"] for name in names] == [5, 0.75, 9, 1, 3]


def test_metrics_count_requests_by_template(client: TestClient) -> None:
    photo = "/v1/images/garden/one.png"
    for path in ("/v1/search?q=red", photo, f"{photo}/file", "/v1/images/sea/nothing.png"):
        client.get(path)
    for path in ("/page/app.js", "/page/nothing.js", "/nowhere", "/livez/x"):
        client.get(path)
    client.post("/v1/search")
    client.request("BREW", "/v1/search")
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = re.findall(
        r'^visualsparta_request_duration_seconds_count\{code="(\d+)",method="(\w+)",'
        r'route="(.*?)"\} (\S+)$',
        answer.text,
        re.MULTILINE,
    )
    assert {(code, method, route): float(count) for code, method, route, count in found} == {
        ("200", "GET", "/v1/search"): 1,
        ("422", "POST", "/v1/search"): 1,
        ("405", "other", "/v1/search"): 1,
        ("200", "GET", "/v1/images/{image_id:image_id}"): 1,
        ("404", "GET", "/v1/images/{image_id:image_id}"): 1,
        ("200", "GET", "/v1/images/{image_id:image_id}/file"): 1,
        ("200", "GET", "/page"): 1,
        ("404", "GET", "/page"): 1,
        ("404", "GET", "none"): 2,
    }
