"""The jar keeps Lucene, its services and its licences."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from docker.slimming.lucene_jar import copy_lucene

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
