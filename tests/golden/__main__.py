"""Golden answers: hashes of postings and of answers of every engine, beside the accepted hashes.

`make golden` builds two collections, 1,000 drawn scenes and 113,287 synthetic images; asks each as
it was built, after changes and, the scenes, in shards, 300 questions of each engine; and names the
kinds of questions whose answers changed. Engines must agree. `tests/golden/digests.json` has the
accepted hashes. The answers are in the folder of the run, a line each.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.golden import product
from tests.golden.drawn import Collection, draw_images, draw_metadata, draw_questions

DIGESTS = Path(__file__).with_name("digests.json")
SCENES, SYNTHETIC = 1_000, 113_287  # photos of MS-COCO's training set
CHANGED = 3_000  # images replaced at most; as many are added, described, deleted
AT_ONCE = 1_000  # images whose postings have one hash
VARYING = "suggest"  # engines count deleted images until they merge, whenever that is

Digests = dict[str, Any]  # collection and state → engine → kind of question → hash


class Golden:
    """Answers in a file, their hashes, and the questions on which engines differ."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.file = folder, folder / "golden.jsonl"
        self.digests: Digests = {}
        self.differences: list[str] = []
        self._first: dict[str, Any] = {}
        self._out = self.file.open("w", encoding="utf-8")

    def add(self, index: str, engine: str, kind: str, asked: Any, answer: Any) -> None:
        """Add an answer, and compare what it has in common with the first engine's."""
        text, question = _canonical(answer), _canonical(asked)
        place = _canonical({"index": index, "engine": engine, "asked": asked})
        self._out.write(f'{place[:-1]},"answer":{text}}}\n')
        kinds = self.digests.setdefault(index, {}).setdefault(engine, {})
        kinds.setdefault(kind, sha256()).update(f"{question} {text}\n".encode())
        answer = json.loads(text)
        first = self._first.setdefault(f"{index} {question}", answer)
        shared = first.keys() & answer.keys()
        if not shared or any(answer[name] != first[name] for name in shared):
            self.differences.append(f"{index}, {engine}: {question[:300]}")

    def close(self) -> Digests:
        """Finish the file, and return the hashes as text."""
        self._out.close()
        return json.loads(json.dumps(self.digests, default=lambda found: found.hexdigest()[:16]))


def _canonical(value: Any) -> str:
    return json.dumps(_rounded(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 5)
    if isinstance(value, dict):
        return {str(name): _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


def hash_postings(folder: Path, engine: str) -> Iterator[tuple[str, str]]:
    """Of every thousand images in the order of their ids, the first id and a hash.

    It is of ids, numbers of postings, and each image's terms and impacts by rising term.
    """
    ids: list[str] = []
    columns: list[Any] = []
    for own, impacts in product.postings(folder, engine):
        for term, values in enumerate(impacts):
            found = np.flatnonzero(values)
            terms = np.full(len(found), term, np.uint16)
            columns.append((found + len(ids), terms, values[found].astype(np.uint16)))
        ids += own
    documents, terms, values = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.array(sorted(range(len(ids)), key=ids.__getitem__))
    ranks = np.empty(len(ids), np.int32)
    ranks[order] = np.arange(len(ids))
    rising = np.argsort(ranks[documents], kind="stable")
    terms, values = terms[rising], values[rising]
    counts = np.bincount(ranks[documents], minlength=len(ids))
    starts = np.concatenate([[0], np.cumsum(counts)])
    for first in range(0, len(ids), AT_ONCE):
        some = [ids[place] for place in order[first : first + AT_ONCE]]
        part = slice(starts[first], starts[first + len(some)])
        digest = sha256(f"{some} {counts[first : first + AT_ONCE].tolist()}".encode())
        digest.update(terms[part].tobytes() + values[part].tobytes())
        yield some[0], digest.hexdigest()


def ask_all(golden: Golden, index: str, whole: Path, parts: Path | None, questions: Any) -> None:
    """Ask every engine of one state of a collection, and hash its postings."""

    def ask_each(engine: str, asked: Any, ask: product.Ask) -> None:
        for one in asked:
            golden.add(index, engine, one["kind"], one, ask(one))
        say(f"{index}, {engine}")

    for prefix, folder in ({"": whole} | ({"shards-": parts} if parts else {})).items():
        for engine in product.ENGINES:
            with product.brought_up_to_date(folder, engine) as own:
                for first, found in hash_postings(own, engine):
                    golden.add(index, prefix + engine, "postings", first, {"postings": found})
                with product.asked_in_python(own, engine) as ask:
                    ask_each(prefix + engine, questions, ask)
        with product.asked_by_rest(folder) as ask:
            ask_each(prefix + "rest", questions, ask)


def both_states(golden: Golden, name: str, whole: Path, parts: Path | None, ids: list[str]) -> None:
    """Ask a collection as it was built and after changes."""
    say(f"{name}, built")
    vocabulary = product.vocabulary(whole)
    is_word = np.array([term.isalpha() for term in vocabulary])
    words = [term for term in vocabulary if term.isalpha()]
    questions = draw_questions(words, ids, len(ids))
    ask_all(golden, name, whole, parts, questions)
    step = max(9, len(ids) // CHANGED)
    new = (f"new/{number:05d}.jpg" for number in range(len(ids) // step))
    shares = np.where(is_word, 65_536 * min(100, len(words) // 3) // len(words), 0)
    images = draw_images(sorted([*ids[::step], *new]), shares, 3)
    described = {image_id: draw_metadata(image_id, 4) for image_id in ids[3::step]}
    for folder in filter(None, (whole, parts)):
        product.change(folder, images, described, ids[6::step])
    questions = [one for one in questions if one["kind"] != VARYING]
    say(f"{name}, changed")
    ask_all(golden, f"{name}-live", whole, parts, questions)


def run(golden: Golden, part: str, scenes: int = SCENES, images: int = SYNTHETIC) -> None:
    """Build and ask the scenes, and with part "all" the synthetic images."""
    with TemporaryDirectory(dir=golden.folder) as place:
        whole, parts, synthetic = (Path(place, name) for name in ("whole", "parts", "synthetic"))
        ids, digest = product.draw_features(golden.folder, scenes)
        golden.add("inputs", "features", "hash", len(ids), {"hash": digest})
        metadata = {image_id: draw_metadata(image_id, 0) for image_id in ids}
        product.build_from_features(golden.folder, whole, metadata)
        product.divide(whole, parts, 3)
        both_states(golden, "scenes", whole, parts, ids)
        if part == "all":
            drawn = Collection(images)
            product.build_from_postings(synthetic, drawn)
            both_states(golden, "synthetic", synthetic, None, drawn.ids)


def changed(found: Digests, accepted: Digests) -> list[str]:
    """The kinds of questions whose answers are not as accepted or not there, with the engines."""
    engines: dict[str, list[str]] = {}
    for index, of_index in found.items():
        before = accepted.get(index, {})
        for engine in dict.fromkeys([*of_index, *before]):
            now, then = of_index.get(engine, {}), before.get(engine, {})
            for kind in dict.fromkeys([*now, *then]):
                if now.get(kind) != then.get(kind):
                    engines.setdefault(f"{index}, {kind}", []).append(engine)
    return [f"{place}: {' '.join(own)}" for place, own in engines.items()]


def say(line: str) -> None:
    """Print a line with the seconds since the start."""
    print(f"{time.perf_counter() - STARTED:5.0f} s  {line}", flush=True)


def main() -> int:
    """Compare this version's answers with the accepted ones; 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=Path, default=Path("build/golden"), metavar="FOLDER")
    parser.add_argument("--part", choices=("small", "all"), default="all")
    parser.add_argument("--accept", action="store_true", help="Write the hashes of this run.")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    golden = Golden(options.inputs)
    run(golden, options.part)
    found = golden.close()
    for line in golden.differences:
        say(f"engines differ: {line}")
    if golden.differences:
        return 1
    accepted = json.loads(DIGESTS.read_text()) if DIGESTS.is_file() else {}
    former = golden.file.with_name("accepted.jsonl")
    if options.accept:
        DIGESTS.write_text(json.dumps(accepted | found, indent=1) + "\n")
        shutil.copy(golden.file, former)
        return 0
    lines = changed(found, accepted)
    for line in lines:
        say(f"changed: {line}")
    say(f"compare {former} and {golden.file}" if lines else "all answers are as accepted")
    return bool(lines)


STARTED = time.perf_counter()
if __name__ == "__main__":
    sys.exit(main())
