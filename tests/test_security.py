"""The tests that SECURITY.md names are there."""

from __future__ import annotations

import re

from tests.documents import ROOT


def test_named_tests_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    named = re.findall(r"\[(test_\w+)\]\(([\w/]+\.py)\)", text)
    assert len(named) > 30
    missing = [(test, file) for test, file in named if f"def {test}(" not in _content(file)]
    assert missing == []


def _content(file: str) -> str:
    return (ROOT / file).read_text()
