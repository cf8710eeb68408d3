"""The server as a child process: it answers, and is gone afterwards."""

import json
import os
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest

from eval.bench.serving.server_process import serving
from sparta.errors import InputError


def test_it_answers_and_is_stopped_whatever_happens(drawings: Path) -> None:
    with pytest.raises(ZeroDivisionError), serving(drawings, "--workers", "2") as server:
        with urllib.request.urlopen(f"{server.address}/v1/search?q=red") as answer:
            assert [hit["score"] for hit in json.load(answer)["hits"]] == [200, 120, 20]
        assert server.processor_seconds() > 0
        raise ZeroDivisionError
    with pytest.raises(URLError, match="refused"):
        urllib.request.urlopen(server.address)
    with pytest.raises(ChildProcessError):
        os.waitpid(server.pid, 0)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"did not start.*is not an index"), serving(tmp_path):
        pass
