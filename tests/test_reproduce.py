"""docs/reproduce.md: every published row with its command, and the presets' settings.

The page's commands are checked by test_docs.py, and run by test_documented_commands.py.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from eval.tables import Ablation
from tests.documents import ROOT, commands
from training.config import PRESETS, load_config

PATH = ROOT / "docs" / "reproduce.md"
PAGE = PATH.read_text(encoding="utf-8")
FOLDERS = ("coco", "flickr30k", "flickr8k", "msr-vtt", "vatex")
NAMED = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[^`\s]+)`", PAGE)
COMMANDS = commands(PATH)


def section(heading: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M)
    assert isinstance(found, str)
    return found


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def numbers(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+\.\d+", text))


def presets_of(folders: tuple[str, ...]) -> set[str]:
    return {
        str(path.relative_to(PRESETS)).removesuffix(".yaml")
        for folder in folders
        for path in (PRESETS / folder).rglob("*.yaml")
    }


def test_presets_that_are_named_exist() -> None:
    assert len(NAMED) > 60
    for name in NAMED:
        load_config(name.replace("METHOD-VISUAL-TEXT", "vse-inf-grid-bert"))


def test_no_preset_is_missing() -> None:
    presets = presets_of(FOLDERS)
    # The tables of GPO and VSE+2AD have one row for both data sets.
    both = {name.replace("coco/", "flickr30k/", 1) for name in NAMED if "coco/vse" in name}
    assert presets == (set(NAMED) | both) & presets
    assert not set(NAMED) - presets - {"flickr8k/METHOD-VISUAL-TEXT"}


# ---- published rows: figures as the papers print them, in their order, and the figures' numbers --


PAPERS = {  # section of the page → text of the paper, and how many of its rows are there
    "GPO": ("gpo", 38),
    "VSE+2AD": ("adpool-adopt", 25),
    "MV-VSE": ("mv-vse", 11),
    "VisualSparta": ("visualsparta", 17),
}


class Row(NamedTuple):
    """A row of a published table, as the page has it."""

    section: str
    name: str
    figures: tuple[str, ...]
    line: str
    published: tuple[str, ...]  # cells
    supplement: bool  # whether the row is in GPO's supplement alone


def rows_of(heading: str) -> Iterator[Row]:
    """The rows of the section's tables that have published figures."""
    for block in re.findall(r"(?:^\|.*\n)+", section(heading), re.M):
        head, _, *lines = block.splitlines()
        columns = cells(head)
        for line in lines:
            values = dict(zip(columns, cells(line), strict=True))
            published = {name: value for name, value in values.items() if "published" in name}
            name = values.get("row") or cells(line)[0]
            if published:
                beside = name.endswith("S4") or values.get("table", "").startswith("S")
                printed = [
                    value
                    for head, value in published.items()
                    if beside or (heading, head) != ("GPO", "published, COCO 5K")
                ]
                figures, whole = numbers(" ".join(printed)), tuple(published.values())
                yield Row(heading, name, figures, line, whole, beside)


ROWS = [row for heading in PAPERS for row in rows_of(heading)]
# Figures that show what is measured.
FIGURES = [f"GPO {number}" for number in (3, 5, 6)]
FIGURES += [f"VSE+2AD {number}" for number in (4, "A.2-1", "C-2")]
FIGURES += [f"MV-VSE {number}" for number in (2, 4, 5)] + ["VisualSparta 1", "VisualSparta 3"]


@pytest.mark.parametrize("heading", PAPERS)
def test_every_row_of_the_papers_is_on_the_page(heading: str) -> None:
    assert len([row for row in ROWS if row.section == heading]) == PAPERS[heading][1]


# Tables whose rows share one command, and the command.
SHARED = {
    ("VisualSparta", ("1K", "5K", "113K", "1M")): "bench speed",
    ("VisualSparta", ("50", "100", "500", "1,000", "2,000", "all")): "eval pruning",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section}: {row.name}")
def test_every_row_has_a_command(row: Row) -> None:
    """A preset that a block of the page trains, or one command for all rows of its table.

    Tables of ablations declare the same published figures.
    """
    for (heading, names), command in SHARED.items():
        if row.section == heading and row.name in names:
            assert any(words[: len(command.split())] == command.split() for words in COMMANDS)
            return
    if table := re.search(r"\| table `([a-z0-9-]+)` \|", row.line):
        [own] = [
            values
            for name, values in Ablation.open(table[1]).rows.items()
            if row.name.startswith(name)
        ]
        figures = [str(one) for column in own["published"].values() for one in column]
        assert set(figures) <= set(row.figures)
        return
    named = re.findall(r"`([a-z0-9-]+/[^`\s]+)`", row.line)
    assert set(named) <= presets_of(FOLDERS)
    assert named or "no command: " in row.line


MISPRINTED = ["59.1/90.3/93.5, 81.8/96.1/98.4, 524.7"]  # as the page says


def test_six_recalls_add_up_to_their_sum() -> None:
    found = [numbers(cell) for row in ROWS for cell in row.published if cell not in MISPRINTED]
    six = [[*map(float, figures)] for figures in found if len(figures) == 7]
    assert len(six) > 60
    for *recalls, rsum in six:
        assert sum(recalls) == pytest.approx(rsum, abs=0.41), recalls


def test_the_list_is_that_of_the_papers(shared: Path) -> None:
    """Each row's figures stand in its paper one behind the other."""
    texts = {}
    for heading, (paper, _) in PAPERS.items():
        text = (shared / "papers" / f"{paper}.txt").read_text(encoding="utf-8")
        found = re.sub(r"\([+-]\d+\.\d+\)|[\u00d7x]", " ", text)
        texts[heading] = " ".join(re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", found))
    for row in [row for row in ROWS if not row.supplement]:
        assert f"{' '.join(row.figures)} " in texts[row.section] + " ", row


def test_every_figure_has_a_command() -> None:
    rows = [cells(line) for line in section("Figures").splitlines() if line.startswith("|")]
    for figure in FIGURES:
        assert any(row[0].startswith(figure) and "`sparta " in row[2] for row in rows), figure


# ---- settings -----------------------------------------------------------------------------------


def tables(heading: str) -> Iterator[tuple[list[str], dict[str, list[Any]]]]:
    """The columns of each table of settings, and the values of each setting as YAML."""
    for block in re.findall(r"(?:^\|.*\n)+", section(heading), re.M):
        head, _, *rows = [cells(line) for line in block.splitlines()]
        if head[0] == "setting" and all(re.fullmatch(r"`[\w.]+`", row[0]) for row in rows):
            values = {row[0].strip("`"): [yaml.safe_load(cell) for cell in row[1:]] for row in rows}
            yield head[1:], values


def resolved(name: str, key: str) -> Any:
    value: Any = load_config(name).model_dump()
    for part in key.split("."):
        value = value[part]
    return value


def column_of(name: str) -> str:
    """The column of the dense presets' table that a preset belongs to."""
    config = load_config(name)
    assert config.family == "vse"
    visual = config.model.options["visual"]
    if "vse-2ad" in name:
        return f"VSE+2AD, {visual}"
    stored = "WSL" if "wsl" in name else "video"
    return visual if visual == "region" or config.has_vision_network else stored


PUBLISHED = ("coco", "flickr30k", "msr-vtt", "vatex")
DENSE = sorted(name for name in presets_of(PUBLISHED) if load_config(name).family == "vse")


def test_settings_are_what_the_dense_presets_resolve_to() -> None:
    ((columns, settings),) = tables("Settings of the dense presets")
    assert {column_of(name) for name in DENSE} == set(columns)
    for name in DENSE:
        at = columns.index(column_of(name))
        for key, values in settings.items():
            if values[at] != "\u2013":
                assert resolved(name, key) == values[at], (name, key)


def test_settings_are_what_the_presets_of_visualsparta_resolve_to() -> None:
    ((columns, settings),) = tables("How to run a row")
    assert len(settings) == 15
    for at, column in enumerate(columns):
        name = column.strip("`")
        for preset in (name, name.replace("coco", "flickr30k")):
            for key, values in settings.items():
                assert resolved(preset, key) == values[at], (preset, key)
