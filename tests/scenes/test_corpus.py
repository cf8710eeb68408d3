"""The corpus on disk: same bytes however it was made, reused, continued or refused."""

import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from tests.scenes import corpus
from tests.scenes.corpus import CorpusSettings, parse_splits, write_scenes
from tests.scenes.draw import Scene, render_scene


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_files_hold_images_captions_and_known_boxes(tmp_path: Path) -> None:
    assert write_scenes(tmp_path / "out", 6, seed=2, split="train=0.5,val=0.5")
    captions, records = (_lines(tmp_path / "out" / f"{n}.jsonl") for n in ("captions", "scenes"))
    assert [line["image"] for line in captions] == [f"{i:06d}.jpg" for i in range(6)]
    assert [line["split"] for line in captions] == ["train"] * 3 + ["val"] * 3
    for index, (line, record) in enumerate(zip(captions, records, strict=True)):
        scene = render_scene(2, index)
        assert line["captions"] == scene.texts
        assert record["background"] == scene.record.background
        assert record["count"] == len(scene.record.objects)
        for found, item in zip(record["objects"], scene.record.objects, strict=True):  # type: ignore[call-overload]
            assert found["label"] == item.label
            assert found["colour"] == item.colour
            assert found["size"] == item.size
            assert found["box"] == pytest.approx(item.box, abs=1e-4)
        with Image.open(tmp_path / "out" / "images" / str(line["image"])) as image:
            assert image.size == scene.image.size


def test_bytes_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    count = corpus.BLOCK + 5
    write_scenes(tmp_path / "one", count, seed=1, workers=1)
    write_scenes(tmp_path / "two", count, seed=1, workers=2)
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")


def test_a_killed_run_is_continued_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "BLOCK", 4)
    write_scenes(tmp_path / "whole", 14, seed=3)

    def killed(stage: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_scenes(tmp_path / "broken", 14, seed=3, progress=killed)
    assert not (tmp_path / "broken" / "captions.jsonl").exists()
    (tmp_path / "broken" / "images" / "000009.jpg").write_bytes(b"half a picture")

    drawn: list[int] = []

    def drawing(seed: int, index: int) -> Scene:
        drawn.append(index)
        return render_scene(seed, index)

    monkeypatch.setattr(corpus, "render_scene", drawing)
    steps: list[tuple[str, int, int]] = []
    assert write_scenes(tmp_path / "broken", 14, seed=3, progress=lambda *step: steps.append(step))
    assert drawn == list(range(4, 14))  # the finished block is not drawn again
    assert steps == [("draw", done, 14) for done in (4, 8, 12, 14)]
    assert _bytes(tmp_path / "broken") == _bytes(tmp_path / "whole")


def test_a_finished_folder_is_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_scenes(tmp_path / "out", 3, seed=1)
    monkeypatch.setattr(corpus, "render_scene", None)  # calling it would fail
    assert not write_scenes(tmp_path / "out", 3, seed=1)


@pytest.mark.parametrize("other", [{"count": 4}, {"seed": 2}, {"split": "val"}])
def test_a_folder_with_other_settings_is_refused(tmp_path: Path, other: dict[str, object]) -> None:
    settings: dict[str, object] = {"count": 3, "seed": 1, "split": "train"}
    write_scenes(tmp_path, **settings)  # type: ignore[arg-type]
    before = _bytes(tmp_path)
    with pytest.raises(InputError, match="contains other scenes"):
        write_scenes(tmp_path, **{**settings, **other})  # type: ignore[arg-type]
    assert _bytes(tmp_path) == before


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(InputError, match="neither an empty folder"):
        write_scenes(tmp_path, 3, seed=1)
    with pytest.raises(InputError, match="neither an empty folder"):
        write_scenes(tmp_path / "holiday.jpg", 3, seed=1)


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_numbers_that_make_no_sense_are_refused(
    tmp_path: Path, numbers: tuple[int, int, int]
) -> None:
    count, seed, workers = numbers
    with pytest.raises(InputError, match="at least"):
        write_scenes(tmp_path / "out", count, seed, workers=workers)


@pytest.mark.parametrize("text", ["", "train=0.5", "train=x,val=y", "train=0.5,=0.5", "a=2,b=-1"])
def test_shares_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--split"):
        parse_splits(text)


def test_splits_follow_the_shares() -> None:
    settings = CorpusSettings(10, 0, parse_splits("train=0.7, dev=0.2, val=0.1"))
    assert [settings.split(i) for i in range(10)] == ["train"] * 7 + ["dev"] * 2 + ["val"]


def test_it_writes_and_reuses(tmp_path: Path) -> None:
    arguments = ["scenes", "--out", str(tmp_path / "out"), "--count", "3", "--workers", "1"]
    assert "wrote 3 scenes" in CliRunner().invoke(cli, arguments).output
    assert "reused 3 scenes" in CliRunner().invoke(cli, arguments).output


def test_it_writes_queries_for_new_and_finished_scenes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["scenes", "--out", str(out), "--count", "3", "--workers", "1"]
    CliRunner().invoke(cli, arguments)
    assert not (out / "queries.jsonl").exists()
    run = CliRunner().invoke(cli, [*arguments, "--queries", "2"])
    assert "wrote 2 queries" in run.output, run.output
    assert len((out / "queries.jsonl").read_text("utf-8").splitlines()) == 2


def test_workers_must_be_a_number(tmp_path: Path) -> None:
    arguments = ["scenes", "--out", str(tmp_path / "out"), "--workers", "many"]
    with pytest.raises(InputError, match="--workers 'many'"):
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
