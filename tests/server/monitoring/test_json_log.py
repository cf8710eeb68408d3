"""Lines of JSON, whole and in order, or counted as lost."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from server.monitoring import monitor as json_log
from server.monitoring.metrics import Metrics
from server.monitoring.monitor import JsonLog


def write(path: str, action: Callable[[JsonLog], None]) -> float:
    """Let a log be written in an event loop; returns how many lines were lost."""
    metrics = Metrics()

    async def run() -> None:
        log = JsonLog(path, metrics.lost_lines)
        action(log)
        await asyncio.sleep(3 * json_log.DELAY)
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


def test_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert write("-", lambda log: log.write("request", {"status": 200})) == 0
    line = json.loads(capfd.readouterr().out)
    assert (line["event"], line["status"]) == ("request", 200)


def test_a_log_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        JsonLog(str(tmp_path / "nowhere" / "log"), Metrics().lost_lines)
