"""Removes from site-packages what a list names, and prints how large it was.

Usage: prune.py SITE_PACKAGES LIST
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def prune(site: Path, patterns: list[str]) -> dict[str, int]:
    """Remove every file and folder that a pattern finds.

    Returns:
        Pattern → bytes removed.

    Raises:
        LookupError: naming the patterns that find nothing; nothing is removed then.
    """
    found = {pattern: sorted(site.glob(pattern)) for pattern in patterns}
    if missing := [pattern for pattern, paths in found.items() if not paths]:
        raise LookupError(f"nothing in {site} matches {', '.join(missing)}")
    return {pattern: sum(map(_remove, paths)) for pattern, paths in found.items()}


def read_patterns(path: Path) -> list[str]:
    """The lines of a file that are neither empty nor comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _remove(path: Path) -> int:
    """Remove a file or folder; its size. It may be gone already, with a folder around it."""
    if path.is_dir():
        size = sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())
        shutil.rmtree(path)
        return size
    size = path.lstat().st_size if path.exists() else 0
    path.unlink(missing_ok=True)
    return size


def main() -> None:
    """Prune the folder named first by the list named second."""
    removed = prune(Path(sys.argv[1]), read_patterns(Path(sys.argv[2])))
    for pattern, size in sorted(removed.items(), key=lambda item: -item[1]):
        sys.stdout.write(f"{size / 1e6:7.1f} MB  {pattern}\n")
    sys.stdout.write(f"{sum(removed.values()) / 1e6:7.1f} MB  removed in all\n")


if __name__ == "__main__":
    main()
