"""Two processes on a CPU against one that holds the whole batch."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from sparta.visualsparta.batch import ImagePadder
from tests import tiny
from tests.training.corpus import write_corpus, write_settings
from training.fit import train
from training.visualsparta.config import VisualSpartaTrainConfig
from training.visualsparta.data import TrainingBatch, TrainingCollator, TrainingExample
from training.visualsparta.module import VisualSpartaTraining

WORLD = 2
CAPTIONS = [[6, 7, 8], [8, 9], [10, 11, 12, 13, 14], [20], [8, 8, 15, 16], [6, 22]]
OPTIONS: dict[str, dict[str, Any]] = {
    "labels": {},
    "tied": {"use_labels": False, "tie_query_embedding": True},
}
CONFIG = VisualSpartaTrainConfig(flops=0.05, label_smoothing=0.1, temperature=0.7)


class Step(nn.Module):
    """What data-parallel training wraps: the loss as `forward`."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.training_module = VisualSpartaTraining(tiny.model(**options), CONFIG)
        self.training_module.log = lambda *_, **__: None  # type: ignore[method-assign]

    def forward(self, batch: TrainingBatch) -> Tensor:
        return self.training_module.training_step(batch, 0)


def batch(photos: range) -> TrainingBatch:
    """One caption a photo, and another for every photo by its neighbour's words."""
    examples = [
        TrainingExample(
            i,
            tiny.image(2 + i % 3, ("dog",) * (i % 2), seed=i),
            [CAPTIONS[i], CAPTIONS[i - 1]],
        )
        for i in photos
    ]
    return TrainingCollator(ImagePadder(tiny.tokenizer(), 50, 35))(examples)


def gradients(step: nn.Module) -> dict[str, Tensor]:
    return {
        name.removeprefix("module."): parameter.grad
        for name, parameter in step.named_parameters()
        if parameter.grad is not None
    }


def train_in_parallel(rank: int, options: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    step = DistributedDataParallel(Step(**options))
    own = batch(range(3 * rank, 3 * rank + 3))
    step(own).backward()
    step.zero_grad()
    loss = step(own)  # the second step fails if the first left a parameter unused
    loss.backward()
    return loss.detach(), gradients(step)


def work(rank: int, meeting: str, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=WORLD)
    results = {name: train_in_parallel(rank, options) for name, options in OPTIONS.items()}
    torch.save(results, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What each process found. All work is done at one start: importing costs the most."""
    folder = tmp_path_factory.mktemp("distributed")
    spawn(work, ((folder / "meeting").as_uri(), str(folder)), nprocs=WORLD)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]


@pytest.mark.parametrize("name", OPTIONS)
def test_two_processes_train_as_one(results: list[Any], name: str) -> None:
    alone = Step(**OPTIONS[name])
    expected = alone(batch(range(6)))
    expected.backward()
    for trained in results:
        loss, slopes = trained[name]
        assert_close(loss, expected.detach())
        assert slopes.keys() == gradients(alone).keys()
        for parameter, slope in gradients(alone).items():
            assert_close(slopes[parameter], slope, rtol=1e-3, atol=1e-5, msg=parameter)


# ---- `torchrun` on two nodes, which are two processes here ------------------------------------

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
PROBABILITIES = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start_nodes(config: str, out: Path) -> list[subprocess.Popen[str]]:
    """Run the command of docs/own-model.md on each of two nodes."""
    meeting = ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = ["-m", "sparta", "train", config, "--out", str(out)]
    return [
        subprocess.Popen(
            [*TORCHRUN, "--node-rank", str(rank), *meeting, *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]


def test_two_nodes_train_what_one_process_does(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path)
    # Dropout is drawn for a process's part of a batch; without it the parts make up the whole.
    encoder = corpus.config().model.encoder | dict.fromkeys(PROBABILITIES, 0.0)
    model = {"encoder": encoder, "options": {"region_dropout": 0.0}}
    config = corpus.config(epochs=2, model=model)
    settings = write_settings(tmp_path / "config.yaml", config)
    nodes = start_nodes(settings, tmp_path / "two")
    train(config, tmp_path / "one")
    outputs = [node.communicate(timeout=120)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    one, two = (load_file(tmp_path / run / "model/model.safetensors") for run in ("one", "two"))
    assert one.keys() == two.keys()
    for name, weights in one.items():
        assert_close(two[name], weights, rtol=1e-3, atol=1e-4, msg=name)
