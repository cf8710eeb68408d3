"""Kill builds, writers, servers, pushes, clusters; break files, send hostile requests, report.

python -m tests.torture --help

A suite of 0 is left out, and its former result stays in the file.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.table import Table

from eval.report import circumstances
from sparta.console import Console
from tests.torture.build_kills import kill_builds
from tests.torture.cluster_kills import kill_builders, kill_served
from tests.torture.copies import copy_indexes
from tests.torture.damages import damage_files
from tests.torture.kills import Report
from tests.torture.live_kills import kill_writers
from tests.torture.push_kills import kill_pushes
from tests.torture.requests import send_requests
from tests.torture.soak import soak_reloads, soak_writes

Suite = Callable[[Any, int, Path, Report], dict[str, Any]]

# Name → suite, how many or how long, and of what.
SUITES: dict[str, tuple[Suite, int | float, str]] = {
    "kills": (kill_builds, 50, "killed builds"),
    "writes": (kill_writers, 50, "killed writers of an index"),
    "soak": (soak_writes, 7.0, "minutes of a server that clients write to, a kill every 8 seconds"),
    "reloads": (soak_reloads, 3.0, "minutes of a server that reloads indexes, killed likewise"),
    "damages": (damage_files, 200, "damaged files"),
    "requests": (send_requests, 500, "hostile requests"),
    "pushes": (kill_pushes, 30, "killed pushes to Milvus"),
    "copies": (copy_indexes, 1000, "steps of copies that take one another's place"),
    "cluster": (kill_builders, 12, "killed parts of builds on a Ray cluster"),
    "shards": (kill_served, 24, "killed parts of a Ray cluster that serves shards"),
}


def main(arguments: list[str]) -> int:
    """Run the suites; 1 if anything went wrong, 0 if nothing did."""
    parser = argparse.ArgumentParser(
        "python -m tests.torture", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    for name, (_, count, what) in SUITES.items():
        parser.add_argument(f"--{name}", type=type(count), default=count, help=what)
    parser.add_argument("--seed", type=int, default=0, help="of everything that is random")
    parser.add_argument("--out", type=Path, default=Path("eval/results/torture.json"), help="file")
    options = parser.parse_args(arguments)
    console = Console()
    results: dict[str, Any] = {"circumstances": circumstances()}
    if options.out.is_file():
        results = json.loads(options.out.read_text()) | results
    for name, (suite, _, _) in SUITES.items():
        if not getattr(options, name):
            continue
        with tempfile.TemporaryDirectory() as work:
            os.environ["VISUALSPARTA_CACHE"] = str(Path(work, "cache"))
            count = getattr(options, name)
            results[name] = suite(count, options.seed, Path(work), console.print)
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    console.print(_table(results))
    return int(any(results[name]["wrong"] for name in SUITES if name in results))


def _table(results: dict[str, Any]) -> Table:
    table = Table("suite", "what happened", "times", title="Torture")
    for name in [name for name in SUITES if name in results]:
        for key, found in results[name].items():
            if isinstance(found, dict):
                for outcome, times in found.items():
                    table.add_row(name, f"{key}: {outcome}", str(times))
        table.add_row(name, "wrong", str(len(results[name]["wrong"])))
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
