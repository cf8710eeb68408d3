"""Run every property test at random, round after round, until the time is over.

python -m tests.fuzz SECONDS [PYTEST ARGUMENTS]

Inputs that fail are stored in tests/examples, printed as `@reproduce_failure(...)`, and tried
first by the next run. Turn each into an `@example(...)` of its test, which `make test` runs.
"""

import os
import random
import sys
import time

import pytest


class Rounds:
    """Passes over the property tests, in random order, that end when the time is over.

    Attributes:
        end: when the time is over, by the monotonic clock.
        failed: the tests that failed; later rounds leave them out.
    """

    def __init__(self, end: float) -> None:
        self.end = end
        self.failed: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Shuffle, so that short runs reach every test sooner or later."""
        items[:] = [item for item in items if item.nodeid not in self.failed]
        random.SystemRandom().shuffle(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record which tests failed."""
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_runtest_logfinish(self) -> None:
        """End the round once the time is over."""
        if time.monotonic() >= self.end:
            pytest.exit("the time is over", returncode=pytest.ExitCode.OK)


def main(seconds: float, arguments: list[str]) -> int:
    """Run rounds for so many seconds; 1 if any test failed, 0 if none did."""
    os.environ["HYPOTHESIS_PROFILE"] = "fuzz"
    rounds = Rounds(time.monotonic() + seconds)
    status, number = 0, 0
    while time.monotonic() < rounds.end and status in (0, pytest.ExitCode.TESTS_FAILED):
        number += 1
        print(f"round {number}", flush=True)
        status = pytest.main(["-m", "hypothesis", "--tb=short", *arguments], plugins=[rounds])
    print(f"{number} rounds, {len(rounds.failed)} tests failed", *sorted(rounds.failed), sep="\n")
    return int(bool(rounds.failed))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
