"""The front door: commands, their groups, plain arguments, and what opening it does not load."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

import indexer.commands.search
from indexer.commands.searching import COMMAND, run_search
from sparta.command_line import cli
from sparta.plain_arguments import plain_arguments

HEAVY = ["torch", "transformers", "jnius", "lightning"]


def shown_by(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})
    return found.exit_code, found.output


def test_groups_hold_their_commands() -> None:
    code, shown = shown_by("--help")
    assert code == 0 and "eval" in shown and "index" in shown
    assert "pruning" not in shown
    code, shown = shown_by("eval", "--help")
    assert code == 0 and "model" in shown and "pruning" in shown
    assert "Measure models and indexes" in shown and "serve" not in shown


@pytest.mark.parametrize("arguments", [["recall"], ["eval", "recall"], ["eval", "nothing"]])
def test_a_command_answers_to_its_own_name_alone(arguments: list[str]) -> None:
    code, shown = shown_by(*arguments)
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


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder whose modules come before the installed ones."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(folder), str(root)])
    program = "import sys; from sparta.__main__ import main; sys.argv[0] = 'sparta'; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize("file", ["eval.py", "eval/__init__.py", "server/__init__.py"])
def test_a_package_of_another_project_is_named(file: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")
    found = run_in(tmp_path, "eval", "cxc", "--help")
    assert found.returncode == 1
    assert f"error: {tmp_path / file} is imported as '{file[:4]}" in found.stderr
    assert "an environment of its own" in found.stderr and found.stderr.count("\n") == 1


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "lightning").mkdir()
    missing = "raise ModuleNotFoundError(\"No module named 'lightning'\", name='lightning')"
    (tmp_path / "lightning" / "__init__.py").write_text(missing)
    found = run_in(tmp_path, "train", "sample", "--out", str(tmp_path / "run"))
    message = "error: lightning is not installed; run: pip install 'visualsparta[train]'\n"
    assert (found.returncode, found.stderr) == (1, message)


Values = dict[str, Any]
SIGNATURE = inspect.signature(run_search)

argument_lists = st.lists(
    st.sampled_from([*COMMAND.options, "--min-coverage", "--help", "--", "-", "-k3", "--engine=x"])
    | st.sampled_from(["index", "two dogs", "", " ", "3", "03", "0", "-1", "1.5", "٣", "a/b"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    max_size=7,
)


def by_typer(given: list[str]) -> Values | None:
    """The values that Typer runs the command with, None if it refuses the arguments."""
    found: list[Values] = []

    def record(*values: Any) -> None:
        found.append(SIGNATURE.bind(*values).arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexer.commands.search, "run_search", record)
        CliRunner().invoke(cli, ["search", *given])
    return found[0] if found else None


def plain(given: list[str]) -> Values | None:
    """The values of plain arguments, with the defaults of the others."""
    found = plain_arguments(COMMAND, given)
    if found is None:
        return None
    bound = SIGNATURE.bind(**found)
    bound.apply_defaults()
    return bound.arguments


@given(argument_lists)
@example(["index", "two dogs", "-k", "3", "--json", "--explain", "--no-substitute"])
@example(["--substitute", "index", "--no-substitute", "--substitute"])
@example(["index", " a ", "--filter", " x:1 ", "--sort", "taken", "--engine", "lucene"])
@example(["index", "dog", "--backend", "vse++", "-k", "007", "-k", "8"])
def test_they_mean_what_typer_makes_of_them(given: list[str]) -> None:
    found = plain(given)
    assert found is None or found == by_typer(given)


@pytest.mark.parametrize(
    "given",
    [
        [],
        [""],
        ["index", "dogs", "more"],
        ["index", "dogs", "-k"],
        ["index", "dogs", "-k", "0"],
        ["index", "dogs", "-k", "٣"],
        ["index", "dogs", "-k3"],
        ["index", "--", "-dogs"],
        ["index", "dogs", "--filter", "-folder:raw"],
        ["index", "dogs", "--engine=lucene"],
        ["index", "dogs", "--min-coverage", "0.5"],
        ["index", "dogs", "--help"],
    ],
)
def test_typer_gets_all_others(given: list[str]) -> None:
    assert plain_arguments(COMMAND, given) is None


def test_the_defaults_are_those_of_typer() -> None:
    assert plain(["index"]) == by_typer(["index"])
    names = [*inspect.signature(indexer.commands.search.search).parameters]
    assert names == [*SIGNATURE.parameters]
