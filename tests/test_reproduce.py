"""docs/reproduce.md: its presets exist, none is forgotten, and its commands can be typed."""

import re
import shlex
from pathlib import Path
from string import Template

import pytest
import typer
from typer.core import TyperGroup

from sparta.__main__ import cli
from training.config import PRESETS, load_config

PAGE = (Path(__file__).parents[1] / "docs" / "reproduce.md").read_text(encoding="utf-8")
FOLDERS = ("coco", "flickr30k", "flickr8k", "msr-vtt", "vatex", "ablations")
NAMED = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[^`\s]+)`", PAGE)


def commands() -> list[list[str]]:
    """Every `sparta …` of the page's code blocks as words, the shell's variables filled in."""
    found = []
    for block in re.findall(r"```\n(.*?)```", PAGE, flags=re.DOTALL):
        values: dict[str, str] = {}
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("sparta "):
                found.append(shlex.split(Template(line).safe_substitute(values))[1:])
            elif re.fullmatch(r"(\w+=\S+ ?)+", line):
                values |= dict(word.split("=", 1) for word in line.split())
    return found


COMMANDS = commands()


def test_presets_that_are_named_exist() -> None:
    assert len(NAMED) > 60
    for name in NAMED:
        load_config(name.replace("METHOD-VISUAL-TEXT", "vse-inf-grid-bert"))


def test_no_row_is_forgotten() -> None:
    presets = {
        str(path.relative_to(PRESETS)).removesuffix(".yaml")
        for folder in FOLDERS
        for path in (PRESETS / folder).rglob("*.yaml")
    }
    # VSE+2AD's table has one row for both data sets.
    both = {name.replace("coco/", "flickr30k/", 1) for name in NAMED if "coco/vse-2ad" in name}
    assert presets == (set(NAMED) | both) & presets
    assert not set(NAMED) - presets - {"flickr8k/METHOD-VISUAL-TEXT"}


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:3]))
def test_commands_have_these_options(words: list[str]) -> None:
    command = typer.main.get_command(cli)
    rest = list(words)
    while isinstance(command, TyperGroup):
        command = command.get_command(None, rest.pop(0))  # type: ignore[arg-type]
    assert command is not None, words
    given = command.make_context(command.name, rest).params
    assert "$" not in " ".join(words)
    if words[0] == "train":
        load_config(given["preset"], given["set_"])


def test_every_kind_of_command_is_there() -> None:
    assert {words[0] for words in COMMANDS} >= {"extract", "import", "train", "index", "figure"}
    assert {words[1] for words in COMMANDS if words[0] == "eval"} == {
        "model",
        "cxc",
        "pruning",
        "transfer",
    }
