"""What the serving image leaves out: classes beside Lucene's, and files that a list names."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from docker.slimming.lucene_jar import copy_lucene
from docker.slimming.prune import prune, read_patterns

LUCENE = [
    "META-INF/MANIFEST.MF",
    "META-INF/LICENSE.txt",
    "META-INF/services/org.apache.lucene.codecs.Codec",
    "META-INF/versions/21/org/apache/lucene/store/MemorySegmentIndexInput.class",
    "com/fasterxml/jackson/databind/ObjectMapper.class",
    "io/anserini/search/similarity/ImpactSimilarity.class",
    "org/apache/lucene/index/IndexWriter.class",
]
OTHERS = [
    "META-INF/services/java.sql.Driver",
    "META-INF/versions/9/org/tukaani/xz/check/CRC64.class",
    "ai/onnxruntime/native/libonnxruntime.so",
    "com/fasterxml/jackson/datatype/Jdk8.class",
    "io/anserini/index/IndexCollection.class",
]


def write(path: Path, names: list[str]) -> Path:
    with ZipFile(path, "w") as jar:
        for name in names:
            jar.writestr(name, name)
    return path


def test_keeps_lucene_alone(tmp_path: Path) -> None:
    fat = write(tmp_path / "fat.jar", [*LUCENE, *OTHERS])
    assert copy_lucene(fat, tmp_path / "jar") == 4
    with ZipFile(tmp_path / "jar") as jar:
        assert jar.namelist() == LUCENE
        assert jar.read(LUCENE[-1]).decode() == LUCENE[-1]


def test_analysis_of_japanese_is_left_out_with_its_services(tmp_path: Path) -> None:
    service = "META-INF/services/org.apache.lucene.analysis.TokenizerFactory"
    japanese = "org.apache.lucene.analysis.ja.JapaneseTokenizerFactory"
    with ZipFile(tmp_path / "fat.jar", "w") as jar:
        jar.writestr(service, f"# factories\norg.apache.lucene.A\n{japanese}\n")
        jar.writestr(f"{japanese.replace('.', '/')}.class", b"")
        jar.writestr("org/apache/lucene/A.class", b"")
    assert copy_lucene(tmp_path / "fat.jar", tmp_path / "jar") == 1
    with ZipFile(tmp_path / "jar") as jar:
        assert jar.read(service).decode() == "# factories\norg.apache.lucene.A"


def test_a_jar_without_lucene_is_refused(tmp_path: Path) -> None:
    fat = write(tmp_path / "fat.jar", OTHERS)
    with pytest.raises(ValueError, match="no class of Lucene"):
        copy_lucene(fat, tmp_path / "jar")


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
