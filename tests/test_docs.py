"""The Markdown pages: their commands can be typed, and their links lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer
from click import Command
from typer.core import TyperGroup

from sparta.command_line import cli
from tests.documents import PAGES, ROOT, commands, inline_commands, name, without_code_blocks
from training.commands.train import overrides
from training.config import load_config


def find_command(words: list[str]) -> tuple[Command, list[str]]:
    """The command that words begin with, and the words after its name."""
    command: Any = typer.main.get_command(cli)
    rest = list(words)
    while isinstance(command, TyperGroup) and rest and not rest[0].startswith(("-", "…")):
        found = command.get_command(None, rest.pop(0))  # type: ignore[arg-type]
        assert found is not None, f"no such command: sparta {' '.join(words)}"
        command = found
    return command, rest


# The changelog names former commands.
CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]
COMMANDS = [(page, words) for page in CURRENT for words in commands(page)]
INLINE = [(page, words) for page in CURRENT for words in inline_commands(page)]


def ids(value: object) -> str:
    return name(value) if isinstance(value, Path) else " ".join(value[:3])  # type: ignore[index]


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=ids)
def test_commands_in_code_blocks_are_complete(page: Path, words: list[str]) -> None:
    command, rest = find_command(words)
    assert "$" not in " ".join(words)
    given = command.make_context(command.name, rest).params
    if words[0] == "train":
        options = ("set_", "init", "teacher", "sentences")
        load_config(given["preset"], overrides(*(given[option] for option in options)))


@pytest.mark.parametrize(("page", "words"), INLINE, ids=ids)
def test_options_of_commands_in_the_text_exist(page: Path, words: list[str]) -> None:
    command, rest = find_command(words)
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {word for word in rest if word.startswith("--")} <= known


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The target file and anchor of every relative link of a page."""
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code_blocks(page)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = unquote(target).partition("#")
            yield (page.parent / path if path else page), anchor


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", without_code_blocks(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{name(page)}: no {target}"
        assert not anchor or anchor in anchors(target), f"{name(page)}: no #{anchor} in {target}"


def test_pages_of_the_documentation_link_to_the_documentation_alone() -> None:
    """MkDocs shows the folder docs/ and nothing beside it."""
    docs = ROOT / "docs"
    outside = [
        f"{name(page)}: {target}"
        for page in PAGES
        if docs in page.parents
        for target, _ in links(page)
        if docs not in target.resolve().parents
    ]
    assert not outside


# Planned modules, and what make fuzz writes.
ABSENT = {"indexer/search/filters.py", "tests/examples"}


@pytest.mark.parametrize("page", CURRENT, ids=name)
def test_files_of_the_project_exist(page: Path) -> None:
    folders = "sparta|indexer|training|eval|server|tests|docs"
    named = re.findall(rf"`((?:{folders})/[^`\s…]*)`", without_code_blocks(page))
    missing = [path for path in named if not any(ROOT.glob(path.rstrip("/")))]
    assert not set(missing) - ABSENT


def test_results_name_no_folders_of_a_machine() -> None:
    folder = re.compile(r'"/[^"]*/')
    for result in sorted((ROOT / "eval" / "results").rglob("*.json")):
        found = folder.search(result.read_text())
        assert found is None, f"{result.relative_to(ROOT)}: {found}"
