"""Packages lose what a list names, and a list that no longer fits fails."""

from pathlib import Path

import pytest

from docker.slimming.prune import prune, read_patterns


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for path, size in {"a/tests/t.py": 10, "a/code.py": 20, "a/b/tests/u.py": 5, "c.so": 7}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(bytes(size))
    return tmp_path


def left(site: Path) -> list[str]:
    return sorted(str(path.relative_to(site)) for path in site.rglob("*") if path.is_file())


def test_removes_files_and_folders_and_returns_their_sizes(site: Path) -> None:
    assert prune(site, ["a/**/tests", "c.so"]) == {"a/**/tests": 15, "c.so": 7}
    assert left(site) == ["a/code.py"]


def test_what_two_patterns_find_counts_once(site: Path) -> None:
    assert prune(site, ["a/b", "a/b/tests/*.py"]) == {"a/b": 5, "a/b/tests/*.py": 0}


def test_a_pattern_without_a_match_removes_nothing(site: Path) -> None:
    with pytest.raises(LookupError, match=r"matches gone/\*, x"):
        prune(site, ["c.so", "gone/*", "x"])
    assert "c.so" in left(site)


def test_comments_are_no_patterns(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# why\n\na/tests\n")
    assert read_patterns(path) == ["a/tests"]
