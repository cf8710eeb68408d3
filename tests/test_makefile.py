"""What `make` would run, without running it."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def dry_run(*arguments: str) -> list[str]:
    command = ["make", "--dry-run", "--no-print-directory", *arguments]
    environment = {**os.environ, "HOME": "/home/someone"}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return run.stdout.splitlines()


def test_demo_says_how_to_search_own_photos() -> None:
    hint, command = dry_run("demo")[-3:-1]
    assert "make demo PHOTOS=" in hint
    assert command.startswith(".venv/bin/sparta serve demo/index")


def test_demo_of_own_photos() -> None:
    lines = dry_run("demo", "PHOTOS=~/My Pictures")
    index = next(line for line in lines if "sparta index" in line)
    assert index.startswith('.venv/bin/sparta index "/home/someone/My Pictures" --out demo/photos-')
    assert lines[-1] == f".venv/bin/sparta serve {index.rpartition(' ')[2]}"
    assert "scenes" not in "".join(lines)


def test_each_folder_of_photos_has_an_index_of_its_own() -> None:
    assert dry_run("demo", "PHOTOS=one")[-1] != dry_run("demo", "PHOTOS=two")[-1]
