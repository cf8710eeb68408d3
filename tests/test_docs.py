"""The Markdown pages: what they name exists, their commands and code run; and `make`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import typer
import yaml
from click import Command
from typer.core import TyperGroup

from indexer.engines.open import open_index
from server.backends import Backend
from server.settings import ServerSettings
from sparta.command_line import cli
from sparta.model_id import SAMPLE
from tests.docker.test_references import labels_of_metrics
from tests.documents import (
    PAGES,
    ROOT,
    code_blocks,
    commands,
    inline_commands,
    name,
    without_code_blocks,
)
from tests.server.apps import serving
from tests.server.fake import FakeSearcher, draw
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
        load_config(given["preset"], overrides(given["set_"], given["init"]))


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


ABSENT = {"tests/examples"}  # written by make fuzz


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


# ---- the Python code of README.md, docs/api.md and docs/clients.md -------------------------------

# What the drawings contain, in place of what photos do.
DRAWN = {
    '"two dogs on a beach"': '"two red things"',
    '"two dogs"': '"red"',
    '"a red boat"': '"blue"',
}
WITHOUT_TORCH = "\nimport sys; assert not {'torch', 'transformers'} & set(sys.modules)"


def printed(code: str, folder: Path, address: str = "", names: dict[str, str] = DRAWN) -> list[str]:
    """The lines that code prints, run by a fresh interpreter in a folder, with other names."""
    for old, new in ({"http://127.0.0.1:8000": address} | names).items():
        code = code.replace(old, new)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


def test_the_examples_of_the_clients(tmp_path: Path) -> None:
    first, several, failing = code_blocks(ROOT / "docs/clients.md", "python")
    with serving(Backend("sparta", FakeSearcher(), draw(tmp_path))) as address:
        lines = printed(first, tmp_path, address)
        assert lines[0] == "1 garden/one.png 200.0 ['red']"
        assert lines[3] == "unknown words: ['two', 'things']"
        assert lines[4] == f"image/png {(tmp_path / 'garden/one.png').stat().st_size} bytes"
        assert "QueryTerm(term='red', count=176)" in lines[5]
        assert [line.split()[:2] for line in printed(several, tmp_path, address)] == [
            ["red", "['garden/one.png',"],
            ["blue", "['garden/two.jpg',"],
        ]
        [line] = printed(failing, tmp_path, address)
    assert line.startswith("404 image_id 127.0.0.1 answered 404, The index has no such image: ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos/; the README's code builds index/ in it."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(SAMPLE / "photos", folder / "photos")
    return folder


def test_the_readme_prints_what_it_shows(folder: Path) -> None:
    [code] = code_blocks(ROOT / "README.md", "python")
    [shown] = code_blocks(ROOT / "README.md", "text")
    assert printed(code, folder, names={}) == shown.splitlines()


def test_the_examples_of_the_api(folder: Path) -> None:
    build, search, ask, encode = code_blocks(ROOT / "docs/api.md", "python")
    assert len(printed(build, folder)) == 3
    assert printed(search + WITHOUT_TORCH, folder)
    assert printed(encode, folder)
    # The drawings have neither dogs nor times.
    names = {"two dogs on a beach": "an elephant", "taken:2024": "width:*"}
    with serving(Backend("sparta", open_index(folder / "index"), folder / "photos")) as address:
        assert len(printed(ask, folder, address, names)) == 5


OPERATIONS = (ROOT / "docs/operations.md").read_text()


def test_the_settings_of_its_files_exist() -> None:
    files = re.findall(r"```yaml\n(.*?)```", OPERATIONS, re.DOTALL)
    assert files
    for file in files:
        assert set(yaml.safe_load(file)) <= set(ServerSettings.model_fields)


def test_its_table_has_all_metrics_with_their_labels() -> None:
    listed = {}
    for row in re.findall(r"^\| (`visualsparta_.*)$", OPERATIONS, re.MULTILINE):
        names, labels, _ = row.split(" |", 2)
        for metric in re.findall(r"`(\w+)`", names):
            listed[metric] = set(re.findall(r"\w+", labels))
    found = {
        re.sub("_(bucket|sum|count)$", "", name): labels - {"le"}
        for name, labels in labels_of_metrics().items()
    }
    assert listed == found


def test_named_tests_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    named = re.findall(r"\[(test_\w+)\]\(([\w/]+\.py)\)", text)
    assert len(named) > 30
    missing = [one for one in named if f"def {one[0]}(" not in (ROOT / one[1]).read_text()]
    assert missing == []


def dry_run(*arguments: str) -> list[str]:
    command = ["make", "--dry-run", "--no-print-directory", *arguments]
    environment = {**os.environ, "HOME": "/home/someone"}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


@pytest.mark.needs("make")
def test_demo_of_the_drawings_says_how_to_search_own_photos() -> None:
    hint, command = dry_run("demo")[-3:-1]
    assert "make demo PHOTOS=" in hint
    assert command.startswith(".venv/bin/sparta serve demo/index")


@pytest.mark.needs("make")
def test_demo_of_own_photos_has_an_index_for_each_folder() -> None:
    lines = dry_run("demo", "PHOTOS=~/My Pictures")
    index = next(line for line in lines if "sparta index" in line)
    assert index.startswith('.venv/bin/sparta index "/home/someone/My Pictures" --out demo/photos-')
    assert lines[-1] == f".venv/bin/sparta serve {index.rpartition(' ')[2]}"
    assert "scenes" not in "".join(lines)
    assert dry_run("demo", "PHOTOS=one")[-1] != lines[-1]
