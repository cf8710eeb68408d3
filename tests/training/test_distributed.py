"""Two processes on a CPU against one that holds the whole batch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from sparta.visualsparta.collate import ImageCollator
from tests import tiny
from training.distributed import gather_columns, gather_padded
from training.teacher.config import TeacherConfig
from training.teacher.similarities import Similarities, Teacher, TermTable
from training.visualsparta.config import VisualSpartaTrainConfig
from training.visualsparta.dataset import TrainingBatch, TrainingCollator, TrainingExample
from training.visualsparta.lightning_module import VisualSpartaTraining

WORLD = 2
CAPTIONS = [[6, 7, 8], [8, 9], [10, 11, 12, 13, 14], [20], [8, 8, 15, 16], [6, 22]]
OPTIONS: dict[str, dict[str, Any]] = {
    "labels": {},
    "no labels": {"use_labels": False},
    "tied": {"use_labels": False, "tie_query_embedding": True},
    "teacher": {"taught": True},
}
CONFIG = VisualSpartaTrainConfig(flops=0.05, label_smoothing=0.1, temperature=0.7)
LESSON = TeacherConfig(models=["teacher"], weight=0.6, image_to_text=0.4, term_scores=0.5)
SENTENCES = [[7, 9], [13, 14, 14], [21, 6]]


def teacher() -> Teacher:
    """Of six photos and nine sentences, the captions first."""
    rng = np.random.default_rng(0)
    sentences = rng.standard_normal((9, 5)).astype(np.float16)
    photos = rng.standard_normal((6, 1, 5)).astype(np.float16)
    terms = len(tiny.VOCABULARY)
    scores = np.abs(rng.standard_normal((6, terms))).astype(np.float16)
    return Teacher([Similarities("a", sentences, photos)], TermTable(scores, np.arange(terms), ""))


class Step(nn.Module):
    """What data-parallel training wraps: the loss as `forward`."""

    def __init__(self, taught: bool = False, **options: Any) -> None:
        super().__init__()
        config = CONFIG.model_copy(update={"teacher": LESSON if taught else None})
        self.training_module = VisualSpartaTraining(
            tiny.model(**options), config, teacher=teacher() if taught else None
        )
        self.training_module.log = lambda *_, **__: None  # type: ignore[method-assign]

    def forward(self, batch: TrainingBatch) -> Tensor:
        return self.training_module.training_step(batch, 0)


def batch(photos: range, taught: bool = False) -> TrainingBatch:
    """One caption a photo, another for every photo by its neighbour's words; and a sentence."""
    examples = [
        TrainingExample(
            i,
            tiny.image(2 + i % 3, ("dog",) * (i % 2), seed=i),
            [CAPTIONS[i], CAPTIONS[i - 1]],
            [SENTENCES[i % 3]] if taught else [],
            [i, (i - 1) % 6, 6 + i % 3] if taught else [],
        )
        for i in photos
    ]
    return TrainingCollator(ImageCollator(tiny.tokenizer(), 50, 35))(examples)


def gradients(step: nn.Module) -> dict[str, Tensor]:
    return {
        name.removeprefix("module."): parameter.grad
        for name, parameter in step.named_parameters()
        if parameter.grad is not None
    }


def train_in_parallel(rank: int, options: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    step = DistributedDataParallel(Step(**options))
    own = batch(range(3 * rank, 3 * rank + 3), "taught" in options)
    step(own).backward()
    step.zero_grad()
    loss = step(own)  # the second step fails if the first left a parameter unused
    loss.backward()
    return loss.detach(), gradients(step)


def gather_in_parallel(rank: int) -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.tensor([[5, 6, 7], [8, 0, 0]] if rank else [[1, 0], [2, 3]])
    columns = torch.arange(6).reshape(3, 2) + 10 * rank
    return (gather_columns(columns), *gather_padded(ids, ids > 0))


def work(rank: int, meeting: str, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=WORLD)
    results = {name: train_in_parallel(rank, options) for name, options in OPTIONS.items()}
    torch.save((results, gather_in_parallel(rank)), Path(folder) / f"{rank}.pt")
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
    expected = alone(batch(range(6), "taught" in OPTIONS[name]))
    expected.backward()
    for trained, _ in results:
        loss, slopes = trained[name]
        assert_close(loss, expected.detach())
        assert slopes.keys() == gradients(alone).keys()
        for parameter, slope in gradients(alone).items():
            assert_close(slopes[parameter], slope, rtol=1e-3, atol=1e-5, msg=parameter)


def test_pieces_are_joined_in_the_order_of_processes(results: list[Any]) -> None:
    for _, (columns, ids, mask) in results:
        assert columns.tolist() == [[0, 1, 10, 11], [2, 3, 12, 13], [4, 5, 14, 15]]
        assert ids.tolist() == [[1, 0, 0], [2, 3, 0], [5, 6, 7], [8, 0, 0]]
        assert mask.dtype == torch.bool
        assert torch.equal(mask, ids > 0)


def test_one_process_gathers_nothing() -> None:
    ids = torch.tensor([[1, 2]])
    assert gather_columns(ids) is ids
    assert gather_padded(ids, ids > 0)[0] is ids
