"""The Grafana dashboard asks for metrics and labels that the server has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families as families

from server.monitoring.metrics import Metrics

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "docker" / "grafana" / "dashboards" / "visualsparta.json"
# Of every metric that Prometheus has fetched.
FETCHED = {"job", "instance"}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def labels_of_metrics() -> dict[str, set[str]]:
    """The labels of each sample that a server can have."""
    metrics = Metrics()
    metrics.request("GET", "/v1/search", 200, 0.1)
    metrics.search("sparta", "columns", 0.1)
    metrics.index(5, 100, 0.0)
    metrics.missing({"vse++": 1})
    metrics.index_change("opened")
    metrics.connection_refused(503)
    metrics.measure_memory()
    samples = [one for family in families(metrics.text().decode()) for one in family.samples]
    return {sample.name: set(sample.labels) for sample in samples}


def test_every_metric_and_label_exists() -> None:
    known, used = labels_of_metrics(), set()
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            found = re.findall(r"(visualsparta_\w+)(\{.*?\})", target["expr"])
            assert found, target
            labels = set().union(*(known[name] for name, _ in found)) | FETCHED
            matched = re.findall(r"(\w+)=", "".join(matcher for _, matcher in found))
            grouped = re.findall(r"by \((.*?)\)", target["expr"])
            shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            assert {*matched, *", ".join(grouped).replace(" ", "").split(",")} - {""} <= labels
            assert set(shown) <= labels
            used |= {name for name, _ in found}
    left = {name for name in known if not name.endswith("_sum")} - used
    assert {re.sub("_(bucket|count)$", "", name) for name in left} <= {
        re.sub("_(bucket|count)$", "", name) for name in used
    }


def test_panels_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
