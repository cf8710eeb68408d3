"""docs/reproduce.md: every published row with its command, and the presets' settings.

The page's commands are checked by test_docs.py.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.documents import ROOT, commands
from training.config import PRESETS, load_config

PATH = ROOT / "docs" / "reproduce.md"
PAGE = PATH.read_text(encoding="utf-8")
FOLDERS = ("coco", "flickr30k", "flickr8k", "msr-vtt", "vatex", "ablations")
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
    # VSE+2AD's table has one row for both data sets.
    both = {name.replace("coco/", "flickr30k/", 1) for name in NAMED if "coco/vse-2ad" in name}
    assert presets == (set(NAMED) | both) & presets
    assert not set(NAMED) - presets - {"flickr8k/METHOD-VISUAL-TEXT"}


def test_every_kind_of_command_is_there() -> None:
    first = {words[0] for words in COMMANDS}
    assert first >= {"extract", "import", "captions", "train", "index", "bench"}
    measured = {words[1] for words in COMMANDS if words[0] == "eval"}
    assert measured == {"model", "cxc", "figure", "pruning", "transfer"}


# ---- published rows: figures as the papers print them, in their order, and the figures' numbers --


class Row(NamedTuple):
    """A row of a published table."""

    paper: str  # name of its text in shared/papers
    section: str  # heading of the page
    name: str
    figures: tuple[str, ...]


def _rows(paper: str, section: str, lines: str) -> list[Row]:
    rows = []
    for line in lines.strip().splitlines():
        name, _, figures = line.partition("|")
        rows.append(Row(paper, section, name.strip(), tuple(figures.split())))
    return rows


GPO = _rows(
    "gpo",
    "GPO",
    """
    mean | 54.0 68.5 58.9 72.4
    Seq2Seq | 58.5 69.9 61.5 73.3
    self-attention | 56.2 70.2 60.3 73.0
    GCN + mean | 54.9 69.0 59.5 71.8
    GCN + Seq2Seq | 60.7 72.5 59.5 71.1
    best simple pooling | 60.7 74.5 61.6 76.3
    VSE++, region, BiGRU | 68.5 92.6 97.1 54.0 85.6 92.7 490.5
    VSE++, region, BiGRU | 62.2 86.6 92.3 45.7 73.6 81.9 442.3
    VSE∞, region, BiGRU | 78.5 96.0 98.7 61.7 90.3 95.6 520.8
    VSE∞, region, BiGRU | 76.5 94.2 97.7 56.4 83.4 89.9 498.1
    VSE∞, region+grid, BiGRU | 80.0 97.0 99.0 64.8 91.6 96.5 528.8
    VSE∞, region+grid, BiGRU | 80.7 96.4 98.3 60.8 86.3 92.3 514.8
    VSE++, region, BERT | 67.9 91.9 97.0 54.0 85.6 92.5 488.9
    VSE++, region, BERT | 63.4 87.2 92.7 45.6 76.4 84.4 449.7
    VSE∞, region, BERT | 79.7 96.4 98.9 64.8 91.4 96.3 527.5
    VSE∞, region, BERT | 81.7 95.4 97.6 61.4 85.9 91.5 513.5
    VSE∞, region+grid, BERT | 82.2 97.5 99.5 68.1 92.9 97.2 537.4
    VSE∞, region+grid, BERT | 85.3 97.2 98.9 66.7 89.9 94.0 532.0
    VSE++, WSL grid, BERT | 79.6 97.1 99.0 66.4 91.1 95.5 528.7
    VSE++, WSL grid, BERT | 80.9 96.6 98.9 65.2 89.5 93.7 524.8
    VSE∞, WSL grid, BERT | 84.5 98.1 99.4 72.0 93.9 97.5 545.4
    VSE∞, WSL grid, BERT | 88.4 98.3 99.5 74.2 93.7 96.8 550.9
    the same, two models | 85.6 98.0 99.4 73.1 94.3 97.7 548.1
    the same, two models | 88.7 98.9 99.8 76.1 94.5 97.1 555.1
    VSE∞, region | 58.3 85.3 42.4 72.7
    VSE∞, region+grid | 62.5 87.8 46.0 75.8
    VSE∞, WSL grid | 66.4 89.3 51.6 79.3
    the same, two models | 68.1 90.2 52.7 80.2
    MSR-VTT, VSE++ | 14.4 34.1 45.6 8.3 24.0 34.1 160.5
    VATEX, VSE++ | 47.8 78.6 86.2 34.7 71.3 81.7 400.3
    MSR-VTT, VSE∞ | 16.0 38.6 50.2 8.7 25.3 35.9 174.7
    VATEX, VSE∞ | 51.2 78.7 86.3 34.2 71.6 81.9 403.9
    VSE∞, BUTD grid | 60.6 87.4 46.2 76.3 45.9 68.7 44.4 78.3
    VSE∞, WSL grid | 67.9 90.6 53.6 81.1 46.7 69.2 51.3 83.2
    """,
)

VSE_2AD = _rows(
    "adpool-adopt",
    "VSE+2AD",
    """
    BiGRU, R | 63.5 91.8 96.3 79.7 97.3 99.2 527.8 58.0 85.0 91.2 76.9 94.4 98.2 503.7
    BiGRU, R+G | 65.7 92.3 97.0 82.1 97.9 99.4 534.4 62.2 86.8 93.1 82.2 97.1 98.8 520.2
    BiGRU, R+G+P | 67.1 93.0 97.7 83.8 98.1 99.4 539.1 63.5 87.6 93.4 83.1 97.7 99.1 524.4
    BERT, R | 67.5 93.6 97.7 81.3 96.7 99.2 536.0 59.1 90.3 93.5 81.8 96.1 98.4 524.7
    BERT, R+G | 71.9 94.3 98.3 84.2 98.5 99.4 546.6 69.2 91.3 95.6 87.1 97.9 99.3 540.4
    BERT, R+G+P | 72.5 94.8 98.7 85.4 98.9 99.2 549.5 71.4 92.0 95.8 88.2 98.4 99.5 545.3
    VSE+2AD, BERT, R+G+P | 52.5 80.2 69.5 91.2 475.9 45.3
    VSE+2AD | 41.4 72.3 83.8 54.9 83.0 91.5
    without the token level | 39.5 71.3 82.3 53.5 82.2 91.3
    without the embedding level | 40.1 72.3 83.2 53.7 82.5 91.3
    without ADPOOL (mean) | 38.5 72.4 81.8 53.3 82.0 91.1
    without ADOPT (hinge) | 39.2 71.1 81.5 53.4 82.2 90.5
    LIP | 38.4 69.3 52.2 81.1 414.8 4.6
    Seq2Seq | 38.2 68.9 52.1 80.9 415.7 1.8
    GCN | 40.7 71.3 53.5 81.5 419.2 1.0
    self-attention | 40.9 71.3 53.8 82.2 420.1 1.6
    AdaPool | 40.2 71.8 52.8 81.4 418.3 4.1
    SoftPool | 39.2 69.8 52.8 81.4 419.8 5.1
    GPO | 41.2 71.1 55.6 82.0 422.9 4.3
    manually chosen: 5-max, mean | 38.7 71.6 53.7 82.1 419.3 5.6
    ADPOOL | 41.4 72.3 54.9 83.0 426.9 4.9
    token 0.25, embedding 0.75 | 39.8 70.2 51.9 80.4 416.6
    0.5, 0.5 | 40.1 70.6 52.8 81.1 418.2
    0.75, 0.25 | 40.6 71.4 54.1 82.2 421.3
    random, mean of 5 runs | 39.3 69.4 51.2 80.1 413.9
    """,
)

MV_VSE = _rows(
    "mv-vse",
    "MV-VSE",
    """
    RNN | 79.0 94.9 97.7 59.1 84.6 90.6 505.8
    BERT | 82.1 95.8 97.9 63.1 86.7 92.3 517.5
    RNN | 78.7 95.7 98.7 62.7 90.4 95.7 521.9
    BERT | 80.4 96.6 99.0 64.9 91.2 96.0 528.1
    RNN | 56.7 84.1 91.4 40.3 70.6 81.6 424.6
    BERT | 59.1 86.3 92.5 42.5 72.8 83.1 436.3
    one view | 76.5 94.2 97.7 56.4 83.4 89.9
    L_Max | 77.2 94.2 96.6 57.6 84.4 90.1
    L_Avg | 77.2 94.3 97.7 57.9 83.7 90.5
    L_Up | 77.8 95.3 97.9 58.0 84.0 90.0
    joint | 79.0 94.9 97.7 59.1 84.6 90.6
    """,
)

VISUAL_SPARTA = _rows(
    "visualsparta",
    "VisualSparta",
    """
    COCO 1K | 68.7 91.2 96.2
    COCO 5K | 45.1 73.0 82.5
    Flickr30K 1K | 57.1 82.6 88.2
    1K | 451.4
    5K | 390.5
    113K | 275.5
    1M | 117.3
    50 | 1.9 537.0 54.6 82.8 90.7 33.0 60.0 71.1
    100 | 1.9 514.7 60.1 86.2 92.8 37.1 64.6 75.3
    500 | 2.1 477.7 65.5 90.3 95.1 42.5 70.6 80.4
    1,000 | 2.4 414.5 67.5 90.9 95.8 43.7 71.7 81.5
    2,000 | 3.9 256.3 68.5 91.1 96.0 44.4 72.5 82.1
    all | 6.9 144.1 68.7 91.2 96.2 45.1 73.0 82.5
    without attributes | 68.2 91.8 96.3 44.4 72.8 82.4
    without labels and attributes | 66.7 91.2 95.9 43.4 71.6 81.6
    without visual features | 49.1 80.3 89.4 26.5 54.1 66.8
    COCO's model on Flickr30K | 45.4 71.0 79.2
    """,
)

ROWS = [*GPO, *VSE_2AD, *MV_VSE, *VISUAL_SPARTA]

# Methods whose rows the papers list beside their own.
OTHERS = (
    """
LIWE, VSRN, CVSE, PVSE, SCAN, CAAN, IMRAM, DSRN, DIME, SCO, CAMERA, SM-LSTM, DAN, CAMP,
PFAN, LVSE, DE, HGR, HGR∞, ViLBERT, ViLBERT DG, Unicoder-VL, UNITER, OSCAR, ALIGN, CLIP,
MVP, VSE++, VSE∞, GPO
""".replace("\n", " ")
    .strip()
    .split(", ")
)

# Section of the page → numbers of the paper's figures.
FIGURES = {
    "GPO": "1 2 3 4 5 6",
    "VSE+2AD": "1 2 3 4 A.2-1 C-2",
    "MV-VSE": "1 2 3 4 5",
    "VisualSparta": "1 2 3",
}


def lines_of(row: Row) -> list[list[str]]:
    """Lines of the section's tables with the row's name and exactly its figures, in order."""
    found = []
    for line in section(row.section).splitlines():
        if line.startswith("|"):
            named = [cell for cell in cells(line) if cell.startswith(row.name)]
            others = [cell for cell in cells(line) if cell not in named and "`" not in cell]
            if named and numbers(" ".join(others)) == row.figures:
                found.append(cells(line))
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section}: {row.name}")
def test_every_row_of_the_papers_is_on_the_page(row: Row) -> None:
    assert lines_of(row)


# Tables whose rows share one command, and the command.
SHARED = {
    ("VisualSparta", ("1K", "5K", "113K", "1M")): "bench speed",
    ("VisualSparta", ("50", "100", "500", "1,000", "2,000", "all")): "eval pruning",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section}: {row.name}")
def test_every_row_has_a_command(row: Row) -> None:
    """A preset that a block of the page trains, or one command for all rows of its table."""
    for (heading, names), command in SHARED.items():
        if row.section == heading and row.name in names:
            assert any(words[: len(command.split())] == command.split() for words in COMMANDS)
            return
    for line in lines_of(row):
        named = re.findall(r"`([a-z0-9-]+/[^`\s]+)`", " ".join(line))
        assert set(named) <= presets_of(FOLDERS)
        assert named or "as in table 2" in line


def test_rows_of_different_networks_have_different_commands() -> None:
    presets = {
        kind: {
            name
            for line in section("GPO").splitlines()
            if kind in line
            for name in re.findall(r"`([a-z0-9]+/[^`]+)`", line)
        }
        for kind in ("WSL grid", "BUTD grid", "region+grid")
    }
    assert all(presets.values())
    assert not presets["WSL grid"] & (presets["BUTD grid"] | presets["region+grid"])


def test_the_list_is_that_of_the_papers(shared: Path) -> None:
    """Each row's figures stand in its paper one behind the other."""
    texts = {}
    for paper in {row.paper for row in ROWS}:
        text = (shared / "papers" / f"{paper}.txt").read_text(encoding="utf-8")
        found = re.sub(r"\([+-]\d+\.\d+\)|[\u00d7x]", " ", text)
        texts[paper] = " ".join(re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", found))
    for row in ROWS:
        assert f"{' '.join(row.figures)} " in texts[row.paper] + " ", row


def test_rows_of_other_methods_have_a_reason() -> None:
    (paragraph,) = [line for line in PAGE.splitlines() if line.startswith("Rows of other methods")]
    listed = re.split(r"[(),:]\s*|\.", paragraph)
    assert set(OTHERS) <= {name.strip() for name in listed}


def figures_named(text: str) -> set[str]:
    """Numbers behind the word figure: 1, 1 to 3, 4 b, A.2-1."""
    found: set[str] = set()
    number = r"(?:[AC](?:\.\d)?-)?\d"
    between = r"(?:,| and| to| [a-d]\b)* "
    for listed in re.findall(rf"[Ff]igures? ({number}(?:{between}{number})*)", text):
        for first, last in re.findall(r"(\d) to (\d)", listed):
            found |= {str(n) for n in range(int(first), int(last) + 1)}
        found |= set(re.findall(number, listed))
    return found


@pytest.mark.parametrize("heading", FIGURES)
def test_every_figure_has_a_command_or_a_reason(heading: str) -> None:
    lines = [cells(line) for line in section("Figures").splitlines() if line.startswith("|")]
    drawn = re.findall(rf"{re.escape(heading)} ([AC.\d-]+)", " ".join(line[0] for line in lines))
    found = figures_named(section(heading)) | set(drawn)
    assert set(FIGURES[heading].split()) <= found


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
    return visual if visual == "region" or config.has_vision_network else "WSL, video"


PUBLISHED = ("coco", "flickr30k", "msr-vtt", "vatex", "ablations")
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
