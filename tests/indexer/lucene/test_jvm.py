"""Which Java runs, and what it must leave to Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from indexer.lucene.jvm import java_home


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
