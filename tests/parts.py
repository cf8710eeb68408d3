"""`make test`: lint, types and the whole test suite, part by part, then one summary of all.

A part that fails does not keep the others from running. The exit status is 1 if any part failed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests.needs import remedy

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "build" / "tests"
BIN = Path(sys.executable).parent

LINT = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "imports": ["lint-imports", "--no-cache", "--no-logo"],
    "mypy": ["mypy"],
}
# Ray leaves threads in a process that uses it, with which it may not end well: so the tests that
# start a cluster have processes of their own, and the longest begins first.
ON_RAY = [
    "tests/server/cluster/test_serving.py",
    "tests/indexer/test_build_on_cluster.py",
    "tests/sparta/extract/test_job_on_cluster.py",
]
# Training forks the workers that load data. It has a process of its own, because other tests leave
# a Java machine and the threads of OpenVINO in theirs.
TRAINING = "tests/training"
TESTS = {
    "rooms": [f"--ignore={path}" for path in (TRAINING, *ON_RAY)],
    "clusters": ON_RAY,
    "training": [TRAINING],
}


@dataclass
class Result:
    """How a part went; `skipped` counts reasons, `failed` names tests."""

    name: str
    status: int = 0
    seconds: float = 0
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def run(name: str, command: list[str], variables: dict[str, str]) -> Result:
    """Run a program of the environment, or one by its path."""
    sys.stdout.write(f"\n---- {name}: {shlex.join(command)}\n")
    sys.stdout.flush()
    start = time.monotonic()
    done = subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, env=os.environ | variables)
    return Result(name, done.returncode, time.monotonic() - start)


def run_tests(name: str, processes: int, options: list[str]) -> Result:
    """Run the tests of a part, and read which passed, failed and were skipped."""
    report = REPORTS / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", f"--junit-xml={report}", *options, *TESTS[name]]
    variables = {}
    if name != "training":
        # As many processes as cores, so that each computes on one: threads of OpenMP would wait for
        # one another. One that crashes ends the run, which would wait for it for ever.
        variables["OMP_NUM_THREADS"] = "1"
        command += ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
        command += ["--max-worker-restart", "0"]
    # Coverage, if `options` ask for it, is added up and judged after the last part.
    command += ["--cov-append"] if name != "rooms" else []
    command += ["--cov-fail-under=0"] if name != "training" else []
    result = run(name, command, variables)
    if report.exists():
        read_report(report, result)
    return result


def read_report(report: Path, result: Result) -> None:
    """Add what JUnit's XML says of each test."""
    for case in ElementTree.parse(report).iter("testcase"):
        found = {child.tag: child for child in case}
        skip = found.get("skipped")
        if "failure" in found or "error" in found:
            result.failed.append(f"{case.get('classname')}::{case.get('name')}".removeprefix("::"))
        elif skip is not None and skip.get("type") != "pytest.xfail":
            # A file that is skipped as a whole has its reason in the text.
            whole = str(skip.text).rpartition("Skipped: ")[2].rstrip("')")
            result.skipped[whole if skip.get("type") is None else str(skip.get("message"))] += 1
        else:
            result.passed += 1


def summary(results: list[Result]) -> str:
    """Of all parts: passed, failed, skipped for want of what."""
    lines = ["", "=" * 24 + " summary of all parts " + "=" * 24]
    lines.append(f"{'part':12} {'':8} {'passed':>7} {'failed':>7} {'skipped':>7} {'seconds':>8}")
    for one in results:
        counts = (one.passed, len(one.failed), one.skipped.total())
        numbers = " ".join(f"{count if any(counts) else '':>7}" for count in counts)
        word = f"failed: {one.status}" if one.status else "passed"
        lines.append(f"{one.name:12} {word:9} {numbers} {one.seconds:8.0f}")
    skipped = sum((one.skipped for one in results), Counter())
    lines += [f"failed: {name}" for one in results for name in one.failed]
    lines += [f"skipped {skipped[why]:4}: {why} → {remedy(why)}" for why in sorted(skipped)]
    bad = [one.name for one in results if one.status]
    total = sum(one.passed for one in results), sum(len(one.failed) for one in results)
    end = f"failed in {', '.join(bad)}" if bad else "all parts passed"
    lines.append(f"{total[0]} passed, {total[1]} failed, {skipped.total()} skipped: {end}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run the parts that are named; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"lint, {', '.join(TESTS)}; without any, all")
    parser.add_argument("--processes", type=int, default=2, help="which divide the tests")
    parser.add_argument("--pytest", default="", help="options for pytest, as one word")
    options = parser.parse_args(arguments)
    parts = options.parts or ["lint", *TESTS]
    if unknown := set(parts) - {"lint", *TESTS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    REPORTS.mkdir(parents=True, exist_ok=True)
    results = []
    try:
        for part in parts:
            if part == "lint":
                results += [run(name, command, {}) for name, command in LINT.items()]
            else:
                results.append(run_tests(part, options.processes, shlex.split(options.pytest)))
    except KeyboardInterrupt:
        sys.stdout.write("\ninterrupted\n")
        results.append(Result("interrupted", 130))
    sys.stdout.write(summary(results) + "\n")
    return int(any(one.status for one in results))


if __name__ == "__main__":
    sys.exit(main())
