"""The project's Markdown pages: their code blocks, and the sparta commands in them."""

import re
import shlex
from pathlib import Path
from string import Template

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
_LOOP = re.compile(r"for (\w+) in (\S+) .*")
_SETTINGS = re.compile(r'(\w+=("[^"]*"|\S+)\s*)+')


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def code_blocks(page: Path, language: str) -> list[str]:
    """The fenced code blocks of a page in one language; "" for those that name none."""
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [code for marked, code in found if marked == language]


def without_code_blocks(page: Path) -> str:
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def commands(page: Path) -> list[list[str]]:
    """Every `sparta …` of a page's code blocks as words, without the word sparta.

    Shell variables are filled in, those of a loop with its first value.
    """
    found = []
    for block in code_blocks(page, ""):
        values: dict[str, str] = {}
        for raw in block.replace("\\\n", " ").splitlines():
            line = _fill(raw.strip(), values)
            line = re.sub(r"^OMP_NUM_THREADS=1 ", "", line)
            if loop := _LOOP.fullmatch(line):
                values[loop[1]] = loop[2]
            elif line.startswith("sparta "):
                found.append(shlex.split(line, comments=True)[1:])
            elif _SETTINGS.fullmatch(line.partition(" #")[0]):
                values |= dict(word.split("=", 1) for word in shlex.split(line, comments=True))
    return found


def inline_commands(page: Path) -> list[list[str]]:
    """Every `sparta …` in a page's text, which may leave out arguments."""
    spans = re.findall(r"`sparta ([^`]+)`", without_code_blocks(page))
    return [shlex.split(span) for span in spans]


def _fill(line: str, values: dict[str, str]) -> str:
    line = re.sub(r"\$\(.*\)", "OUTPUT", line)
    line = re.sub(r"\$\{(\w+)[^}]*\}", r"$\1", line)
    return Template(line).safe_substitute(values)
