"""`sparta update`."""

from __future__ import annotations

import shutil
from pathlib import Path

from indexer.commands.update import listed
from indexer.search.open import open_index
from tests.indexer.command_line import sparta, sparta_here


def test_metadata_is_changed_without_torch(index: Path, tmp_path: Path) -> None:
    live = shutil.copytree(index, tmp_path / "live")
    about = tmp_path / "about.csv"
    about.write_text("image,album\na/00007 é.jpg,sea\nb.jpg,sea\n")
    done = sparta("update", str(live), str(about))
    assert done.returncode == 0, done
    assert done.stdout == (
        f"{live}: metadata of 1 images changed, 0 as before; 1 not in the index: b.jpg\n"
    )
    assert open_index(live).metadata("a/00007 é.jpg")["album"] == "sea"
    done = sparta_here("update", str(live), str(about.with_name("missing.csv")))
    assert (done.returncode, done.stdout) == (1, "")


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(["a", "b", "c"], 1) == "a and 2 more"
