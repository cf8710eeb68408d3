"""Every format of `sparta export` has the impacts of the index, read by a parser of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import load_npz

import indexer.export
import indexer.index_writer
from indexer.export import export_index
from indexer.maintenance.combine import split_index
from indexer.postings import ImagePostings, Postings
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.update.writer import open_writer
from sparta.errors import InputError
from tests.documents import ROOT, code_blocks
from tests.indexer.command_line import sparta_here
from tests.indexer.live_index import LiveReference
from tests.indexer.lucene.written import read_lucene
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.vocabulary import COMMON, TOKENIZER
from tests.needs import EVERY, package
from tests.reference.searcher import ReferenceSearcher

VOCABULARY = TOKENIZER.vocabulary
PAGE = ROOT / "docs/export.md"


@dataclass
class Case:
    """An index, its images by id, and its commits."""

    folder: Path
    images: dict[str, ImagePostings]
    versions: str

    def weights(self, names: list[str] = VOCABULARY) -> list[tuple[str, dict[str, int]]]:
        """Id and impacts of every image, by id."""
        return [
            (key, {names[term]: int(n) for term, n in zip(one.terms, one.impacts, strict=True)})
            for key, one in sorted(self.images.items())
        ]


@pytest.fixture(scope="module", params=["built"] * EVERY + ["written to", "in shards"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, make_index: MakeIndex
) -> Case:
    postings = random_postings(TOKENIZER, 90, seed=4)
    folder = make_index(tmp_path_factory.mktemp("exported") / "index", postings)
    right = LiveReference(postings)
    if request.param == "built":
        return Case(folder, right.images, "0")
    if request.param == "in shards":
        split_index(folder, divided := folder.with_name("divided"), 3)
        return Case(divided, right.images, "0 0 0")
    others = list(random_postings(TOKENIZER, 8, seed=5))
    new = [replace(one, image_id=f"new/{one.image_id}") for one in others[:4]]
    again = [replace(one, image_id=postings.ids[30 + n]) for n, one in enumerate(others[4:])]
    groups: list[list[Change]] = [
        [*map(Delete, postings.ids[:5]), *map(Add, new)],
        [*map(Add, again), MetadataChange(postings.ids[20], {"title": "x.y"})],
    ]
    with open_writer(folder) as writer:
        for changes in groups:
            writer.write(changes)
            version = writer.commit().number
            right.apply(changes)
    return Case(folder, right.images, str(version))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer.index_writer, "AT_ONCE", 16)
    monkeypatch.setattr(indexer.export, "VECTORS_BYTES", 2000)
    monkeypatch.setattr(indexer.export, "REQUEST_BYTES", 2000)


def lines(folder: Path, pattern: str) -> list[Any]:
    """The JSON of every line of some files, none of which has over 2,000 bytes without need."""
    files = sorted(folder.glob(pattern))
    found = [[json.loads(line) for line in one.read_text().splitlines()] for one in files]
    assert len(files) > 2
    assert all(
        one.stat().st_size <= 2000 or len(has) <= 2 for one, has in zip(files, found, strict=True)
    )
    return [value for has in found for value in has]


def test_anserini(case: Case, tmp_path: Path) -> None:
    assert export_index("anserini", case.folder, tmp_path / "out") == len(case.images)
    found = lines(tmp_path / "out", "vectors-*.jsonl")
    assert [(one["id"], one["vector"]) for one in found] == case.weights()
    assert all(one.keys() == {"id", "contents", "vector"} and not one["contents"] for one in found)


@pytest.mark.parametrize("kind", ["rank_features", "sparse_vector"])
def test_opensearch(case: Case, tmp_path: Path, kind: Any) -> None:
    out = tmp_path / "out"
    export_index("opensearch", case.folder, out, field="terms", kind=kind)
    names = [term.replace(".", "__") for term in VOCABULARY]
    body = json.loads((out / "mapping.json").read_text())
    mapping = body["mappings"]["properties"]
    assert mapping["metadata"] == {"type": "object", "enabled": False}
    if kind == "rank_features":
        assert mapping["terms"] == {"type": kind}
        assert not any("." in name for name in names)
    else:
        names = [str(number) for number in range(len(VOCABULARY))]
        assert body["settings"] == {"index": {"sparse": True}}
        assert mapping["terms"]["method"]["parameters"] == {"quantization_ceiling_ingest": 255}
        assert json.loads((out / "vocabulary.json").read_text()) == VOCABULARY
    found = lines(out, "bulk-*.ndjson")
    actions, documents = found[::2], found[1::2]
    ids = [one["index"]["_id"] for one in actions]
    assert actions == [{"index": {"_id": image_id}} for image_id in ids]
    impacts = [one["terms"] for one in documents]
    assert list(zip(ids, impacts, strict=True)) == case.weights(names)
    assert [one["metadata"] for one in documents] == [case.images[key].metadata for key in ids]


def test_npz(case: Case, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_index("npz", case.folder, out)
    assert {path.name for path in out.iterdir()} == {"impacts.npz", "ids.json", "vocabulary.json"}
    assert json.loads((out / "vocabulary.json").read_text()) == VOCABULARY
    ids, matrix = json.loads((out / "ids.json").read_text()), load_npz(out / "impacts.npz")
    assert matrix.format == "csr" and matrix.dtype == np.int32
    assert matrix.shape == (len(ids), len(VOCABULARY))
    rows = [{VOCABULARY[i]: int(row[i]) for i in row.nonzero()[0]} for row in matrix.toarray()]
    assert list(zip(ids, rows, strict=True)) == case.weights()


def test_lucene(case: Case, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    out = tmp_path / "out"
    export_index("lucene", case.folder, out, progress=lambda *step: steps.append(step))
    count = len(case.images)
    assert {stage: (done, whole) for stage, done, whole in steps} == {
        "export": (count, count),
        "write": (count, count),
        "merge": (count, count),
    }
    found = read_lucene(out)
    assert found.commit.keys() == {"version", "lineage"}
    assert found.commit["version"] == case.versions
    assert [(key, impacts) for key, _, impacts in found.documents] == case.weights()
    metadata = [case.images[key].metadata for key in sorted(case.images)]
    assert [own for _, own, _ in found.documents] == metadata


def test_pyserinis_own_searcher_by_the_recipe_of_the_page(case: Case, tmp_path: Path) -> None:
    package("pyserini", "lucene")
    (tmp_path / "index").symlink_to(case.folder)
    export_index("lucene", case.folder, tmp_path / "lucene")
    queries = ["two dogs on a beach", "dog", "dogs dog the beach", COMMON, "犬"]
    [recipe] = code_blocks(PAGE, "python")
    recipe += f"""
import json
answers = [searcher.search(query, 10) for query in {queries!r}]
print(json.dumps([[(hit.docid, hit.score) for hit in hits] for hits in answers]))
print(searcher.doc({min(case.images)!r}).raw())
"""
    run = subprocess.run(
        [sys.executable, "-c", recipe],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    *shown, answers, raw = run.stdout.splitlines()
    exact = ReferenceSearcher(case.images.values(), TOKENIZER)
    for query, found in zip(queries, json.loads(answers), strict=True):
        hits = exact.search(query, 10).hits
        assert [image_id for image_id, _ in found] == [hit.image_id for hit in hits]
        scores = [hit.score for hit in hits]
        assert [score for _, score in found] == pytest.approx(scores, abs=1e-2)
    first: list[tuple[str, float]] = json.loads(answers)[0]
    assert [line.partition(" ")[2] for line in shown[-len(first) :]] == [one for one, _ in first]
    assert json.loads(raw) == case.images[min(case.images)].metadata


def test_command(index: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = sparta_here("export", "npz", str(index), str(out))
    assert (done.returncode, done.stdout) == (0, f"{out}: 300 images\n"), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    before = (out / "ids.json").stat()
    for arguments, said in (
        (["npz", str(index), str(out)], f"{out} exists: give a new folder"),
        (["npz", str(tmp_path), str(tmp_path / "x")], "is not an index"),
        (["npz", str(index), str(tmp_path / "x"), "--field", "a"], "is of opensearch"),
        (
            ["opensearch", str(index), str(tmp_path / "x"), "--field", "metadata=rank_features"],
            "another name",
        ),
    ):
        done = sparta_here("export", *arguments)
        assert done.returncode == 1 and done.stdout == "", done
        assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert (out / "ids.json").stat() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_ids_and_terms_that_opensearch_would_refuse(
    make_index: MakeIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [image] = random_postings(TOKENIZER, 1)
    folder = make_index(tmp_path / "index", Postings.of([replace(image, image_id="é" * 257)]))
    with pytest.raises(InputError, match="has over 512 bytes"):
        export_index("opensearch", folder, tmp_path / "out")
    opened = indexer.export._open
    both = ["a.b", "a__b", *VOCABULARY[2:]]
    monkeypatch.setattr(
        indexer.export, "_open", lambda *given: replace(opened(*given), vocabulary=both)
    )
    with pytest.raises(InputError, match="give --field NAME=sparse_vector"):
        export_index("opensearch", folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
