"""A short form of `make torture`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.torture import __main__ as torture
from tests.torture import server_kills
from tests.torture.copies import copy_indexes
from tests.torture.damages import damage_files
from tests.torture.kills import kill_builds
from tests.torture.live_kills import kill_writers
from tests.torture.needs import needs_proc
from tests.torture.push_kills import kill_pushes
from tests.torture.requests import send_requests
from tests.torture.server_kills import kill_server


def test_the_build_after_a_killed_one_succeeds(tmp_path: Path) -> None:
    found = kill_builds(3, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert found["next_build"] == {"succeeded": 3}
    assert found["next_index"] == {"right": 3}


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    found = kill_writers(4, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert found["recovered"] == {"all that was acknowledged": 4}
    assert found["acknowledged"] > 0


@needs_proc
def test_a_server_whose_processes_die_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_kills, "EVERY", 4.0)
    found = kill_server(2, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert found["kills"] > 0
    assert found["happened"]["images written"] > 0


def test_killed_pushes_to_milvus_continue(tmp_path: Path) -> None:
    found = kill_pushes(2, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert found["push"] == {"following, killed": 1, "once, killed": 1}
    assert found["continued"] == {"all images once": 2}


def test_copies_that_take_one_anothers_place_are_found(tmp_path: Path) -> None:
    found = copy_indexes(80, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert found["taken"].keys() >= {"put", "restore", "alias", "move", "overwrite"}


def test_damaged_files_are_detected_or_harmless(tmp_path: Path) -> None:
    found = damage_files(12, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert sum(found["outcomes"].values()) == 12


def test_hostile_requests_are_answered(tmp_path: Path) -> None:
    found = send_requests(40, 7, tmp_path, lambda _: None)
    assert found["wrong"] == []
    assert {"200", "404", "422"} <= found["answers"].keys()


def test_results_are_written_and_decide_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "torture.json"
    for wrong in ([], [{"killed_at": "change 7"}]):
        suites = {"kills": (lambda *_, w=wrong: {"next_build": {"succeeded": 3}, "wrong": w}, 3)}
        monkeypatch.setattr(torture, "SUITES", suites)
        assert torture.main(["--kills", "3", "--out", str(out)]) == bool(wrong)
        assert json.loads(out.read_text())["kills"]["wrong"] == wrong
        assert "next_build: succeeded" in capsys.readouterr().out
