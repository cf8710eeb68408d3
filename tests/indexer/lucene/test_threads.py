"""Several threads on the same searchers, in a process of their own: a crash is a failed test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MIXED = """
import sys, threading
from dataclasses import asdict
from itertools import product
from indexer.lucene.jvm import java
from indexer.search.lucene import LuceneSearcher

searchers = [LuceneSearcher(sys.argv[1]) for _ in range(2)]
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
    return found if isinstance(found, dict) else asdict(found) | {"timings": None}

right = [answer(call) for call in calls]
for searcher in searchers:  # what was read once must be read again
    searcher.close()
searchers[:] = [LuceneSearcher(sys.argv[1]) for _ in range(2)]
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
