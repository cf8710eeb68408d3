from pathlib import Path

import pytest
from PIL import Image

from eval.bench.photos import inputs
from eval.bench.photos.inputs import PhotoSet, draw_photos, parse_sizes
from sparta.errors import InputError


def test_sizes_are_read() -> None:
    assert parse_sizes("500x375, 4000x3000") == [(500, 375), (4000, 3000)]
    for wrong in ("", "500", "500x", "500x0", "7x100", "500x375;40x30"):
        with pytest.raises(InputError, match="--sizes"):
            parse_sizes(wrong)


def test_drawn_photos_are_repeated_under_other_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "DISTINCT", 2)
    steps: list[tuple[str, int, int]] = []
    drawn = draw_photos(tmp_path, 5, 60, 40, lambda *step: steps.append(step))
    assert steps == [("draw", 1, 2), ("draw", 2, 2)]
    assert (drawn.name, drawn.ids) == ("60x40", [f"{number:06d}.jpg" for number in range(5)])
    contents = [(drawn.folder / image_id).read_bytes() for image_id in drawn.ids]
    assert contents[0] == contents[2] == contents[4] != contents[1] == contents[3]
    assert Image.open(drawn.folder / drawn.ids[0]).size == (60, 40)
    sizes = [len(content) for content in contents]
    assert drawn.megabytes == pytest.approx(sum(sizes) / 5 / 1e6)
    larger = draw_photos(tmp_path, 2, 80, 60)  # of the same scenes
    assert len(PhotoSet.of(larger.folder).ids) == 2
