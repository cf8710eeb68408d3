"""`sparta delete`."""

from __future__ import annotations

import shutil
from pathlib import Path

from indexer.search.open import open_index
from tests.indexer.command_line import sparta, sparta_here


def test_images_are_deleted_without_torch(index: Path, tmp_path: Path) -> None:
    live = shutil.copytree(index, tmp_path / "live")
    done = sparta("delete", str(live), "a/00007 é.jpg", "a/00008 é.jpg")
    assert (done.returncode, done.stdout) == (0, f"{live}: 2 images deleted; 298 in all\n"), done
    assert len(open_index(live)) == 298
    done = sparta_here("delete", str(live), "a/00007 é.jpg")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {live} has no image 'a/00007 é.jpg': give ids")
    done = sparta_here("delete", str(live), "a/00009 é.jpg")
    assert done.stdout == f"{live}: 1 image deleted; 297 in all\n"


def test_what_a_filter_lets_through_is_deleted(index: Path, tmp_path: Path) -> None:
    live = shutil.copytree(index, tmp_path / "live")
    few = 'path:="a/00007 é.jpg"|="a/00008 é.jpg"'
    done = sparta_here("delete", str(live), "--filter", few)
    assert (done.returncode, done.stdout) == (0, f"{live}: 2 images deleted; 298 in all\n"), done
    done = sparta_here("delete", str(live), "--filter", few)
    assert done.stdout == f"{live}: the filter lets none of 298 images through\n"
    done = sparta_here("delete", str(live), "--filter", "path:*")
    assert done.returncode == 1
    assert f"{live}: delete 298 of 298 images?" in done.stderr
    assert "error: nothing was changed; --yes does it without asking" in done.stderr
    done = sparta_here("delete", str(live), "--filter", "-path:*00011*", "--yes")
    assert done.returncode == 1
    assert "error: --filter, column" in done.stderr
    done = sparta_here("delete", str(live), "--filter", "path:*", "--yes")
    assert done.stdout == f"{live}: 298 images deleted; 0 in all\n"


def test_ids_or_a_filter(index: Path) -> None:
    for wrong in ([], ["a", "--filter", "path:*"]):
        done = sparta_here("delete", str(index), *wrong)
        assert (done.returncode, done.stdout) == (1, "")
        assert "give ids, or a --filter, and not both" in done.stderr
