"""The front door: commands, groups of commands, and what opening it does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from sparta.__main__ import cli

HEAVY = ["torch", "transformers", "jnius", "lightning"]


def run(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})
    return found.exit_code, found.output


def test_groups_hold_their_commands() -> None:
    code, shown = run("--help")
    assert code == 0 and "eval" in shown and "index" in shown
    assert "pruning" not in shown
    code, shown = run("eval", "--help")
    assert code == 0 and "model" in shown and "pruning" in shown
    assert "Measure models and indexes" in shown and "serve" not in shown


@pytest.mark.parametrize("arguments", [["recall"], ["eval", "recall"], ["eval", "nothing"]])
def test_a_command_answers_to_its_own_name_alone(arguments: list[str]) -> None:
    code, shown = run(*arguments)
    assert code == 2 and f"No such command '{arguments[-1]}'" in shown


@pytest.mark.parametrize("arguments", [["--help"], ["eval", "--help"], ["eval", "model", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    program = f"""
import sys
from sparta.__main__ import main
sys.argv = ["sparta", *{arguments}]
try:
    main()
except SystemExit as end:
    loaded = [name for name in {HEAVY} if name in sys.modules]
    sys.exit(end.code or ", ".join(loaded) or 0)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert "Usage: sparta" in found.stdout
