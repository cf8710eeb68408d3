"""Questions before what cannot be undone."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from indexer.commands.consent import ask
from sparta.errors import InputError

app = typer.Typer()


@app.command()
def act(yes: bool = False) -> None:
    ask("all of it?", yes)
    typer.echo("done")


@pytest.mark.parametrize(
    ("arguments", "typed", "agreed"),
    [((), "y\n", True), (("--yes",), "", True), ((), "n\n", False), ((), "", False)],
)
def test_only_a_yes_goes_on(arguments: tuple[str, ...], typed: str, agreed: bool) -> None:
    done = CliRunner().invoke(app, arguments, input=typed)
    assert ("done" in done.stdout) == agreed
    if not agreed:
        assert isinstance(done.exception, InputError)
        assert str(done.exception) == "nothing was changed; --yes does it without asking"
