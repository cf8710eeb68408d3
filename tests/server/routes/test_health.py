"""Whether the server lives and is ready, and its metrics."""

import re

from fastapi import FastAPI
from fastapi.testclient import TestClient


def test_a_server_that_stops_is_not_ready(client: TestClient) -> None:
    assert client.get("/readyz").json() == {"status": "ready"}
    assert isinstance(client.app, FastAPI)
    client.app.state.stopping = True
    stopping = client.get("/readyz")
    assert stopping.status_code == 503
    assert stopping.json()["type"].endswith("stopping")
    assert client.get("/livez").json() == {"status": "ok"}


def test_metrics_count_requests_by_template(client: TestClient) -> None:
    client.get("/v1/search?q=red")
    client.get("/v1/images/garden/one.png")
    client.get("/v1/images/garden/one.png/file")
    client.get("/v1/images/sea/nothing.png")
    client.get("/page/app.js")
    client.get("/page/nothing.js")
    client.get("/nowhere")
    client.get("/livez/x")
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
