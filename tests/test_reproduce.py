"""docs/reproduce.md: its presets exist, and none is missing. Its commands: test_docs.py."""

import re

from tests.documents import ROOT, commands
from training.config import PRESETS, load_config

PATH = ROOT / "docs" / "reproduce.md"
PAGE = PATH.read_text(encoding="utf-8")
FOLDERS = ("coco", "flickr30k", "flickr8k", "msr-vtt", "vatex", "ablations")
NAMED = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[^`\s]+)`", PAGE)


def test_presets_that_are_named_exist() -> None:
    assert len(NAMED) > 60
    for name in NAMED:
        load_config(name.replace("METHOD-VISUAL-TEXT", "vse-inf-grid-bert"))


def test_no_row_is_missing() -> None:
    presets = {
        str(path.relative_to(PRESETS)).removesuffix(".yaml")
        for folder in FOLDERS
        for path in (PRESETS / folder).rglob("*.yaml")
    }
    # VSE+2AD's table has one row for both data sets.
    both = {name.replace("coco/", "flickr30k/", 1) for name in NAMED if "coco/vse-2ad" in name}
    assert presets == (set(NAMED) | both) & presets
    assert not set(NAMED) - presets - {"flickr8k/METHOD-VISUAL-TEXT"}


def test_every_kind_of_command_is_there() -> None:
    found = commands(PATH)
    first = {words[0] for words in found}
    assert first >= {"extract", "import", "captions", "train", "index", "figure"}
    measured = {words[1] for words in found if words[0] == "eval"}
    assert measured == {"model", "cxc", "pruning", "transfer"}
