"""Plain arguments mean what Typer makes of them; Typer gets all others."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

import indexer.commands.search
from indexer.commands.searching import COMMAND, run_search
from sparta.command_line import cli
from sparta.plain_arguments import plain_arguments

Values = dict[str, Any]
SIGNATURE = inspect.signature(run_search)

arguments = st.lists(
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


@given(arguments)
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
