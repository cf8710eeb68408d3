"""The encoding benchmark: its FLOPs are those of the equations, its figures of what was run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from eval.bench.encoding import device as bench_device
from eval.bench.encoding.device import flops_of, peak_of
from eval.bench.encoding.encode_speed import (
    TRAINING,
    TRANSFORMER,
    VOCABULARY,
    WHOLE,
    EncodeSpeed,
    Figure,
)
from eval.bench.encoding.measure import EncodingPlan, EncodingVariant, measure_encoding
from eval.bench.encoding.random_model import ModelSize, make_captions, make_images, make_model
from sparta.command_line import cli
from sparta.errors import InputError

TINY = ModelSize(layers=2, width=64, vocabulary=90, regions=5, label_tokens=6, feature_dim=10)
CPU = torch.device("cpu")
SMALL = ["--layers", "1", "--width", "64", "--vocabulary", "90", "--regions", "3"]
SMALL += ["--label-tokens", "4", "--images", "4", "--batch-size", "2", "--training-batch", "2"]


def slow_flops(size: ModelSize) -> tuple[int, int]:
    """Of transformer and vocabulary: two for each number of each product of matrices."""
    positions, h = size.regions + size.label_tokens, size.width
    regions = 2 * size.regions * (size.feature_dim + 6) * h
    projections = 2 * positions * h * (4 * h + 2 * 4 * h)
    attention = 2 * 2 * positions * positions * h
    return regions + size.layers * (projections + attention), 2 * positions * h * size.vocabulary


def test_flops_are_those_of_the_equations() -> None:
    model, images = make_model(TINY), make_images(TINY, 3, CPU)
    transformer, vocabulary = (3 * count for count in slow_flops(TINY))
    assert flops_of(lambda: model.contextualise(images)) == transformer
    found = flops_of(lambda: model.term_scores(images))
    assert found == transformer + vocabulary


def test_the_default_is_the_papers_size() -> None:
    size = ModelSize()
    assert (size.layers, size.width, size.vocabulary) == (12, 768, 30_522)
    assert (size.regions, size.label_tokens, size.feature_dim) == (50, 70, 2048)
    transformer, vocabulary = slow_flops(size)
    assert transformer / 1e9 == pytest.approx(21.1, abs=0.1)
    assert vocabulary / 1e9 == pytest.approx(5.6, abs=0.1)


def test_inputs_are_full() -> None:
    images = make_images(TINY, 3, CPU)
    assert images.region_mask.all() and images.label_mask.all()
    assert (images.region_mask.shape, images.label_mask.shape) == ((3, 5), (3, 6))
    assert make_captions(TINY, 4, CPU).counts.sum(dim=1).tolist() == [12.0] * 4


def test_every_variant_is_measured_in_all_parts() -> None:
    variants = [EncodingVariant.parse(name) for name in ("float32", " bfloat16")]
    threads, steps = torch.get_num_threads(), []
    plan = EncodingPlan(TINY, variants, 4, 2, 3, [None, 7], CPU, peak=2.0)
    found = measure_encoding(plan, lambda *step: steps.append(step))
    parts = [(TRANSFORMER, None), (VOCABULARY, None), (VOCABULARY, 7), (WHOLE, None)]
    parts.append((TRAINING, None))
    assert [(f.part, f.chunk) for f in found.figures] == 2 * parts
    assert [f.variant for f in found.figures] == ["float32"] * 5 + ["bfloat16"] * 5
    transformer, vocabulary = slow_flops(TINY)
    expected = [transformer, vocabulary, vocabulary, transformer + vocabulary]
    assert [f.flops for f in found.figures[:4]] == expected
    # Backwards, each product has two.
    assert 2 * transformer < found.figures[4].flops < 4 * (transformer + vocabulary)
    for figure in found.figures:
        batch = 3 if figure.part == TRAINING else 2
        assert figure.images_per_second == pytest.approx(batch / figure.seconds)
    assert steps[-1] == ("figures", 10, 10) and torch.get_num_threads() == threads
    record = found.record()
    assert json.loads(json.dumps(record)) == record
    assert record["figures"][0]["share_of_peak"] == found.figures[0].rate / 2.0


def test_the_slower_part_in_its_quickest_chunk_bounds() -> None:
    def figure(part: str, chunk: int | None, seconds: float) -> Figure:
        return Figure("float32", part, chunk, seconds, 10 / seconds, 0.01e12, None)

    parts = [(TRANSFORMER, None, 0.2), (VOCABULARY, 5, 0.9), (VOCABULARY, 6, 0.05)]
    figures = [figure(*part) for part in parts]
    found = EncodeSpeed("cpu", TINY, 10, 0, figures, {"float32": 0.6}, None)
    assert figures[0].rate == pytest.approx(0.5)
    assert found.bounds() == {
        "float32": "80% of the time goes to the transformer, at 83% of the rate of one large "
        "product: arithmetic"
    }
    slow = EncodeSpeed("cpu", TINY, 10, 0, figures, {"float32": 5.0}, None)
    assert slow.bounds()["float32"].endswith("memory and what lies between products")


def test_known_chips_have_a_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    assert peak_of(CPU) is None
    for name, peak in (("NVIDIA H200", 989), ("NVIDIA A100-SXM4-80GB", 312), ("Tesla T4", None)):
        monkeypatch.setattr(bench_device, "name_of", lambda device, name=name: name)
        assert peak_of(torch.device("cuda")) == peak


def test_the_command_writes_what_it_shows(tmp_path: Path) -> None:
    out = tmp_path / "encode.json"
    arguments = ["bench", "encode", *SMALL, "--device", "cpu", "--variants", "float32"]
    run = CliRunner().invoke(cli, [*arguments, "--json", "--out", str(out)])
    assert run.exit_code == 0, run.output
    written = json.loads(out.read_text())
    assert written["size"]["layers"] == 1 and written["chip"] == "cpu" and written["cores"] > 0
    assert [figure["part"] for figure in written["figures"]][-1] == TRAINING
    assert json.loads(run.stdout) == {key: written[key] for key in json.loads(run.stdout)}
    run = CliRunner().invoke(cli, [*arguments, "--training-batch", "0"])
    assert "GFLOPs an image" in run.stdout and TRAINING not in run.stdout


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--variants", "float16"], "--variants 'float16': expected float32 or bfloat16"),
        (["--variants", "float32+fast"], "--variants"),
        (["--chunks", "auto,many"], "--chunks: 'many' is not a number"),
        (["--width", "100"], "--width 100 is not a multiple of 64"),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments: list[str], match: str) -> None:
    run = CliRunner().invoke(cli, ["bench", "encode", *arguments])
    assert isinstance(run.exception, InputError) and match in str(run.exception)
