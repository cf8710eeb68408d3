"""The page about operating a server names settings and metrics as they are."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from server.settings import ServerSettings
from tests.docker.test_grafana import labels_of_metrics

PAGE = (Path(__file__).parents[1] / "docs" / "operations.md").read_text()


def test_the_settings_of_its_files_exist() -> None:
    files = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert files
    for file in files:
        assert set(yaml.safe_load(file)) <= set(ServerSettings.model_fields)


def test_its_table_has_all_metrics_with_their_labels() -> None:
    listed = {}
    for row in re.findall(r"^\| (`visualsparta_.*)$", PAGE, re.MULTILINE):
        names, labels, _ = row.split(" |", 2)
        for name in re.findall(r"`(\w+)`", names):
            listed[name] = set(re.findall(r"\w+", labels))
    found = {
        re.sub("_(bucket|sum|count)$", "", name): labels - {"le"}
        for name, labels in labels_of_metrics().items()
    }
    assert listed == found
