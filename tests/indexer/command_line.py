"""The command line in a process of its own, which must not load what a query does not need."""

from __future__ import annotations

import os
import subprocess
import sys

FRESH = """
import sys
sys.argv = ["sparta", *sys.argv[1:]]
from sparta.__main__ import main
try:
    main()
finally:
    heavy = {"torch", "transformers", "pyserini", "scipy.sparse", "faiss"} & set(sys.modules)
    assert not heavy, heavy
"""


def sparta(
    *arguments: str, code: str = FRESH, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"COLUMNS": "200"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
