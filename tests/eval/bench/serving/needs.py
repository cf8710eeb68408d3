"""The mark of tests that run the load generator."""

import shutil

import pytest

needs_wrk = pytest.mark.skipif(
    shutil.which("wrk") is None, reason="the load generator wrk is not installed"
)
