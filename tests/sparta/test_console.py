"""What commands print: texts as they are, square brackets and colons included."""

import io
import re
from pathlib import Path

import pytest
from rich.table import Table
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.console import Console
from sparta.progress import progress_bars

ODD = "q[/b] [bold]x[/bold] [link=y] :cat: \\[z]"
ROOT = Path(__file__).parents[2]


def test_texts_are_printed_as_they_are() -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=200)
    table = Table(ODD, title=ODD, caption=ODD)
    table.add_row(ODD)
    console.print(ODD)
    console.print(table)
    with progress_bars({"stage": (ODD, ODD)}, console) as progress:
        progress("stage", 1, 2)
    assert shown.getvalue().count(ODD) == 6


def test_names_of_files_are_printed_as_they_are(tmp_path: Path) -> None:
    source, out = tmp_path / "q[b].jsonl", tmp_path / "[bold]:cat:[nltk].jsonl"
    source.write_text('{"image": "a", "captions": ["a dog"]}')
    run = CliRunner().invoke(cli, ["captions", str(source), "--out", str(out)])
    assert run.exit_code == 0, repr(run.exception)
    assert "[bold]:cat:[nltk].jsonl:captionsof1images" in "".join(run.stdout.split())


@pytest.mark.parametrize("room", ["sparta", "indexer", "server", "eval", "training"])
def test_no_other_console_is_used(room: str) -> None:
    """Nothing else of Rich's that reads texts as markup, either."""
    parsing = r"from_markup|rich\.(markup|panel|prompt|status)|rich\.console import .*\bConsole\b"
    for path in (ROOT / room).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(parsing, text), path
        assert text.count("TextColumn(") == len(re.findall(r"TextColumn\(.*markup=False\)", text))
