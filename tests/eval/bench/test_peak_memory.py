import subprocess
import sys
import time

import pytest

from eval.bench import peak_memory
from eval.bench.peak_memory import watch

FAMILY = """
import subprocess, sys
kept = bytearray(40_000_000)
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
else:
    import time
    time.sleep(1.5)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc on this system")
def test_a_process_counts_with_all_below_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", FAMILY, FAMILY])
    with process, watch(process.pid) as peak:
        assert process.wait() == 0
    assert peak.bytes is not None
    assert 80e6 < peak.bytes < 400e6


def test_the_peak_is_unknown_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_memory, "proportional_size", lambda _: 0)
    with watch(-1) as peak:
        time.sleep(0.5)
    assert peak.bytes is None
