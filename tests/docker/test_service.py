"""The systemd unit: its syntax, and that its command exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparta.command_line import cli

UNIT = Path(__file__).parents[2] / "docker" / "visualsparta.service"
SPARTA = "/opt/visualsparta/bin/sparta"


def verify(folder: Path, text: str) -> str:
    """What systemd-analyze finds."""
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    unit = folder / UNIT.name
    unit.write_text(text.replace(SPARTA, "/bin/true"))
    run = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True)
    return run.stderr.strip()


def test_systemd_understands_it(tmp_path: Path) -> None:
    assert verify(tmp_path, UNIT.read_text()) == ""
    assert "Restrat" in verify(tmp_path, UNIT.read_text().replace("Restart=", "Restrat="))


def test_its_commands_exist(tmp_path: Path) -> None:
    commands = re.findall(rf"^Exec\w+={SPARTA} (.*)$", UNIT.read_text(), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        config = tmp_path / "serve.yaml"
        config.write_text("index: nowhere\n")
        words = command.replace("/etc/visualsparta/serve.yaml", str(config)).split()
        error = CliRunner().invoke(cli, words).exception
        assert "nowhere is not an index" in str(error)
