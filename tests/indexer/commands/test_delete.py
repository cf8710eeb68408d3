"""`sparta delete`."""

from __future__ import annotations

import shutil
from pathlib import Path

from indexer.search.open import open_index
from tests.indexer.command_line import sparta


def test_images_are_deleted_without_torch(index: Path, tmp_path: Path) -> None:
    live = shutil.copytree(index, tmp_path / "live")
    done = sparta("delete", str(live), "a/00007 é.jpg", "a/00008 é.jpg")
    assert (done.returncode, done.stdout) == (0, f"{live}: 2 images deleted; 298 in all\n"), done
    assert len(open_index(live)) == 298
    done = sparta("delete", str(live), "a/00007 é.jpg")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {live} has no image 'a/00007 é.jpg': give ids")
    done = sparta("delete", str(live), "a/00009 é.jpg")
    assert done.stdout == f"{live}: 1 image deleted; 297 in all\n"
