"""Kill builds, writers, servers, pushes, clusters; break files, send hostile requests, report.

python -m tests.torture [--kills 50] [--writes 50] [--server 50] [--damages 200] [--requests 500]
    [--pushes 30] [--copies 1000] [--cluster 12] [--shards 24] [--seed 0]
    [--out eval/results/torture.json]

A suite of which there are to be 0 is left out, and its former result stays in the file.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from eval.machine import circumstances
from tests.torture.cluster_kills import kill_parts
from tests.torture.copies import copy_indexes
from tests.torture.damages import damage_files
from tests.torture.kills import kill_builds
from tests.torture.live_kills import kill_writers
from tests.torture.push_kills import kill_pushes
from tests.torture.requests import send_requests
from tests.torture.server_kills import kill_server
from tests.torture.shard_kills import kill_served

Suite = Callable[[int, int, Path, Callable[[str], None]], dict[str, Any]]

# Name → suite and how many.
SUITES: dict[str, tuple[Suite, int]] = {
    "kills": (kill_builds, 50),
    "writes": (kill_writers, 50),
    "server": (kill_server, 50),
    "damages": (damage_files, 200),
    "requests": (send_requests, 500),
    "pushes": (kill_pushes, 30),
    "copies": (copy_indexes, 1000),
    "cluster": (kill_parts, 12),
    "shards": (kill_served, 24),
}


def main(arguments: list[str]) -> int:
    """Run the suites; 1 if anything went wrong, 0 if nothing did."""
    parser = argparse.ArgumentParser()
    for name, (_, count) in SUITES.items():
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("eval/results/torture.json"))
    options = parser.parse_args(arguments)
    console = Console()
    results: dict[str, Any] = {"circumstances": circumstances()}
    if options.out.is_file():
        results = json.loads(options.out.read_text()) | results
    for name, (suite, _) in SUITES.items():
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
    for name in SUITES.keys() & results.keys():
        for key, found in results[name].items():
            if isinstance(found, dict):
                for outcome, times in found.items():
                    table.add_row(name, f"{key}: {outcome}", str(times))
        table.add_row(name, "wrong", str(len(results[name]["wrong"])))
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
