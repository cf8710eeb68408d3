"""The Python code of docs/clients.md runs as it stands, against a server at another address."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.backends import Backend
from tests.documents import ROOT, code_blocks
from tests.server.fake import FakeSearcher, draw
from tests.server.live import serving

PAGE = ROOT / "docs/clients.md"
# What the drawings contain, in place of what photos do.
QUERY = {"two dogs on a beach": "two red things", "two dogs": "red", "a red boat": "blue"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    photos = draw(tmp_path_factory.mktemp("photos"))
    with serving(Backend("sparta", FakeSearcher(), photos)) as address:
        yield address


def output(address: str, program: str) -> list[str]:
    program = program.replace("http://127.0.0.1:8000", address)
    for words, drawn in QUERY.items():
        program = program.replace(f'"{words}"', f'"{drawn}"')
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


def test_the_examples(address: str, tmp_path: Path) -> None:
    first, several, failing = code_blocks(PAGE, "python")
    lines = output(address, first)
    assert lines[0] == "1 garden/one.png 200.0 ['red']"
    assert lines[3] == "unknown words: ['two', 'things']"
    size = (draw(tmp_path) / "garden/one.png").stat().st_size
    assert lines[4] == f"image/png {size} bytes"
    assert "QueryTerm(term='red', count=176)" in lines[5]
    assert [line.split()[:2] for line in output(address, several)] == [
        ["red", "['garden/one.png',"],
        ["blue", "['garden/two.jpg',"],
    ]
    [line] = output(address, failing)
    assert line.startswith("404 image_id 127.0.0.1 answered 404, The index has no such image: ")
