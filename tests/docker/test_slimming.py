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
    with pytest.raises(ValueError, match="no class of Lucene"):
        copy_lucene(write(tmp_path / "fat.jar", OTHERS), tmp_path / "jar")


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


@pytest.mark.parametrize(
    ("patterns", "freed", "left"),
    [
        (["a/**/tests", "c.so"], [15, 7], ["a/code.py"]),
        (["a/b", "a/b/tests/*.py"], [5, 0], ["a/code.py", "a/tests/t.py", "c.so"]),
        (["c.so", "gone/*", "x"], None, ["a/b/tests/u.py", "a/code.py", "a/tests/t.py", "c.so"]),
    ],
)
def test_files_and_folders_of_a_list_are_removed(
    tmp_path: Path, patterns: list[str], freed: list[int] | None, left: list[str]
) -> None:
    """What two patterns find counts once; one without a match removes nothing."""
    site, listed = tmp_path / "site", tmp_path / "list.txt"
    for path, size in {"a/tests/t.py": 10, "a/code.py": 20, "a/b/tests/u.py": 5, "c.so": 7}.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(bytes(size))
    listed.write_text("\n".join(["# why", "", *patterns]))
    if freed is None:
        with pytest.raises(LookupError, match=r"matches gone/\*, x"):
            prune(site, read_patterns(listed))
    else:
        assert prune(site, read_patterns(listed)) == dict(zip(patterns, freed, strict=True))
    assert sorted(str(path.relative_to(site)) for path in site.rglob("*.*")) == left
