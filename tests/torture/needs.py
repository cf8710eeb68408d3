"""The mark of tests that read /proc."""

from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="no /proc on this system"
)
