"""The command line: in a process of its own, which must load nothing heavy, or in this one."""

import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparta.__main__ import main
from sparta.command_line import cli

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


def sparta(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FRESH, *arguments],
        env=os.environ | {"COLUMNS": "200"} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def sparta_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In this process, which need not load again what it has."""
    out, errors = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
        patch.setattr(sys, "argv", ["sparta", *arguments])
        patch.setattr(sys, "stdin", StringIO())
        with pytest.raises(SystemExit) as ended:
            main()
    code = ended.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())


def run(*arguments: str | Path) -> str:
    """What a command prints, on one line; what it raises is raised."""
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exception:
        raise done.exception
    return done.output.replace("\n", " ")
