"""Skipped tests: reported with what to install, and failures in continuous integration.

With the environment variable CI set, a test that is skipped fails, unless its reason is in ALLOWED.
"""

import os
import re
from collections.abc import Generator

import pytest

# Reasons that are right on some machine whatever is installed there.
ALLOWED = (
    "Windows has no sigaction",
    "this file system takes UTF-8 alone",
    "timm is installed",
    "timm is not installed",
    "this machine has a GPU",
)

# What a reason contains → how to run the tests that it skips.
REMEDIES = {
    "browser": "install Chromium: apt-get install chromium",
    "packages of npm": "install Node, then all packages: apt-get install npm && make install",
    "redis-server": "install Redis: apt-get install redis-server",
    "systemd": "install systemd, which need not run: apt-get install systemd",
    "wrk": "install the load generator: apt-get install wrk",
    "pyserini": "install Pyserini: pip install pyserini",
    r"real photos|real regions|vocabularies": "put the folder `shared` beside this checkout",
    "timm is not": "install timm, and the torchvision for this torch: pip install timm",
    "milvus-lite": "install the server for tests: pip install milvus-lite==2.5.1",
    r"extra \[\w+\]|could not import": "install all extras: make install",
}


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def remedy(reason: str) -> str:
    """How to run the tests that were skipped for this reason."""
    found = (text for pattern, text in REMEDIES.items() if re.search(pattern, reason))
    return next(found, "nothing to install")


def fail_if_not_allowed(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In continuous integration, turn a skip that no machine is excused from into a failure."""
    if not report.skipped or hasattr(report, "wasxfail") or not os.environ.get("CI"):
        return
    why = reason(report)
    if not any(re.search(pattern, why) for pattern in ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"skipped in continuous integration: {why}; {remedy(why)}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Check the report of each test."""
    report = yield
    fail_if_not_allowed(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Check the report of each test file: a file can be skipped as a whole."""
    report = yield
    fail_if_not_allowed(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print, for each reason, how many tests it skipped and how to run them."""
    reasons = [reason(report) for report in terminalreporter.getreports("skipped")]
    if not reasons:
        return
    terminalreporter.section("skipped")
    for why in sorted(set(reasons)):
        terminalreporter.write_line(f"{reasons.count(why):4}  {why} → {remedy(why)}")
