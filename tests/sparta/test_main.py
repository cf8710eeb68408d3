"""The front door: commands, what opening it does not load, and texts printed as they are."""

import io
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest
from rich.table import Table
from typer.testing import CliRunner

from sparta.command_line import COMMANDS, GROUPS, cli
from sparta.console import Console
from sparta.progress import progress_bars
from tests.without_extras import OUTCOMES, prepare

ROOT = Path(__file__).parents[2]
HEAVY = ["torch", "transformers", "jnius", "lightning"]


def shown_by(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(cli, arguments, env={"COLUMNS": "80"})
    return found.exit_code, found.output


HOSTILE = ["\x1b[31mred", "\x1b]0;title\x07", "over\rwritten", "\x9b31m", "\u202egpj.exe", "a\x7f"]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_reaches_the_terminal_as_a_command(name: str) -> None:
    """Neither of names, nor of errors; whether or not the output is a terminal."""
    code = "import sys; from sparta.terminal import guard_output; guard_output(); "
    code += "from sparta.console import Console; from rich.table import Table; import typer; "
    code += "t = Table('h'); t.add_row(sys.argv[1]); Console(width=60).print(t, sys.argv[1]); "
    code += "print(sys.argv[1]); print(sys.argv[1], file=sys.stderr); typer.echo(sys.argv[1])"
    command = [sys.executable, "-m", "sparta", "info", name]
    for arguments in ([sys.executable, "-c", code, name], command):
        done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT)
        unsafe = next(one for one in name if not one.isprintable())
        shown = done.stdout + done.stderr
        assert unsafe not in shown and f"\\u{ord(unsafe):04x}" in shown, shown


def test_characters_that_the_terminal_lacks_are_replaced() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sparta", "info", "caf\u00e9"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.stderr == "error: caf\\xe9 is not an index: it has no manifest.json\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    """All of its docstring and of the options' helps is shown, brackets included."""
    code, shown = shown_by(*name.split(), "--help")
    assert code == 0 and f"Usage: root {name} " in shown
    module, _, function = COMMANDS[name].partition(":")
    called = getattr(import_module(module), function)
    hints = get_type_hints(called, include_extras=True).values()
    options = [one for hint in hints for one in getattr(hint, "__metadata__", ())]
    paragraphs = [*(called.__doc__ or "").split("\n\n"), *(one.help for one in options)]
    for text in paragraphs:
        text = re.sub(r"^\s*(For example:|Example: )", "", text or "")
        assert without_blanks(text) in without_blanks(shown)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_fits_a_screen_and_ends_with_examples(name: str) -> None:
    shown = CliRunner().invoke(cli, [*name.split(), "--help"], terminal_width=100).output
    assert shown.count("\n") <= 60
    _, found, examples = shown.partition("Examples:\n")
    assert found and all(line.startswith("  ") for line in examples.splitlines())
    assert f"sparta {name}" in examples


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["serch"], "sparta search"),
        (["evl"], "sparta eval'"),
        (["pruning"], "sparta eval pruning"),
        (["eval", "modle"], "sparta eval model"),
        (["search", "index", "--explian"], "--explain"),
    ],
)
def test_a_mistyped_name_gets_a_suggestion(typed: list[str], meant: str) -> None:
    code, shown = shown_by(*typed)
    assert code == 2 and meant in shown


def without_blanks(text: str) -> str:
    """A text without blanks and the signs that continue an example on the next line."""
    return "".join(text.replace("\\\n", "\n").split())


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
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "Usage: sparta" in found.stdout


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder whose modules come before the installed ones."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    command = [sys.executable, *arguments]
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


@pytest.mark.parametrize("file", ["eval.py", "eval/__init__.py", "server/__init__.py"])
def test_a_package_of_another_project_is_named(file: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")
    found = run_in(tmp_path, "-m", "sparta", "eval", "model", "--help")
    assert found.returncode == 1
    assert f"error: {tmp_path / file} is imported as '{file[:4]}" in found.stderr
    assert "an environment of its own" in found.stderr and found.stderr.count("\n") == 1


@pytest.mark.parametrize("error", ['OSError(28, "No space", "a/b")', 'OSError(122, "Quota")'])
def test_a_full_disk_is_said_in_words_by_every_command(error: str, tmp_path: Path) -> None:
    program = f"""
import sparta.command_line, sparta.__main__
def full(**_): raise {error}
sparta.command_line.cli = full
sparta.__main__.main()
"""
    found = run_in(tmp_path, "-c", program)
    assert found.returncode == 1 and found.stderr.count("\n") == 1
    assert "the disk is full: free some room and start again" in found.stderr


def test_without_extras_every_command_works_or_names_its_extra(tmp_path: Path) -> None:
    assert {*COMMANDS} - {"keys revoke"} <= {*map(command_of, OUTCOMES)}
    prepare(tmp_path)
    found = run_in(tmp_path, "-m", "tests.without_extras")
    assert found.returncode == 0, found.stderr


def command_of(words: str) -> str:
    """The command's name: one word, or two in a group."""
    first, second, *_ = words.split()
    return f"{first} {second}" if first in GROUPS else first


# ---- what commands print: square brackets and colons included ------------------------------------

ODD = "q[/b] [bold]x[/bold] [link=y] :cat: \\[z]"


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
