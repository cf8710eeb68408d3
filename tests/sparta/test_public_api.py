"""What `import sparta` gives and what it does not load; libraries that extras install."""

import json
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import numpy as np
import pytest

import sparta
from indexer.build import build_index
from sparta.errors import InputError
from sparta.extract.job import extract_photos
from sparta.extras import EXTRAS, how_to_install, require
from sparta.features.store import FeatureStore
from sparta.visualsparta.batch import ImagePadder
from tests.sparta.extract.tiny_networks import noisy

HEAVY = ["torch", "transformers", "jnius", "numba", "pyarrow"]


def loaded(program: str) -> list[str]:
    """The heavy modules that a program has loaded when it ends."""
    program += f"\nimport sys\nprint(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout.split()


def test_importing_sparta_loads_nothing_heavy() -> None:
    assert loaded("import sparta; dir(sparta); sparta.__all__") == []


def test_every_public_name_exists_and_is_documented() -> None:
    for name in sparta.__all__:
        assert getattr(sparta, name).__doc__
        assert name in dir(sparta)
        assert name in (sparta.__doc__ or "")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sparta.nothing  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("b.png", "a.png", "c.png")
    return noisy(tmp_path_factory.mktemp("photos"), *names, size=(80, 60))


@pytest.fixture(scope="module")
def store(photos: Path) -> FeatureStore:
    source = sparta.VisualSparta.from_pretrained("sample").config.feature_source
    assert source is not None
    size = source["image_size"]
    out = photos.with_name(photos.name + "-features")
    extract_photos(photos, out, "pixels", image_size=size, workers=0, device="cpu")
    return FeatureStore.open(out)


def test_a_search_loads_no_torch(store: FeatureStore, tmp_path: Path) -> None:
    build_index([store], ["sample"], tmp_path / "index", device="cpu")
    for engine in ("lucene", "columns"):
        program = f"""
import sparta
searcher = sparta.open({str(tmp_path / "index")!r}, engine={engine!r})
assert searcher.search("a green tent", k=3).hits
searcher.close()
"""
        assert not {"torch", "transformers"} & set(loaded(program))


def test_encode_photos_agrees_with_encoding_a_store(store: FeatureStore, photos: Path) -> None:
    model = sparta.VisualSparta.from_pretrained("sample")
    assert model.tokenizer is not None
    batch = ImagePadder.of(model.tokenizer, model.config)(list(store))
    scores = model.term_scores(batch).scores.numpy()
    found = sparta.encode_images(photos, model)
    assert [*found] == store.ids == ["a.png", "b.png", "c.png"]
    for terms, row in zip(found.values(), scores, strict=True):
        expected = {model.tokenizer.vocabulary[term]: row[term] for term in np.flatnonzero(row)}
        assert terms == pytest.approx(expected, abs=1e-5) and len(terms) > 10
        assert [*terms.values()] == sorted(terms.values(), reverse=True)
    paths: list[str | Path] = [photos / "c.png", str(photos / "a.png")]
    several = sparta.encode_images(paths, "sample", device="cpu")
    assert [*several] == [str(path) for path in paths]
    for name, terms in several.items():
        assert terms == pytest.approx(found[Path(name).name], abs=1e-5)


def test_a_damaged_photo(photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "broken.png").write_text("")
    found = sparta.encode_images([tmp_path / "broken.png", photos / "a.png"], "sample")
    assert [*found] == [str(photos / "a.png")]
    assert "broken.png: the file is empty; left out" in caplog.text
    with pytest.raises(InputError, match="no photo could be decoded"):
        sparta.encode_images(tmp_path, "sample")


def test_what_cannot_be_encoded_is_named(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist: give a model's folder"):
        sparta.encode_images(photos, tmp_path / "nowhere")
    model = sparta.VisualSparta.from_pretrained("sample")
    for source, message in (
        (None, "does not record which features it takes"),
        ({"kind": "region", "backbone": "vinvl", "weights": "v"}, "cannot be made from photos"),
        ({"kind": "pixels", "backbone": "pixels", "weights": ""}, "dimension: 5 against"),
    ):
        numbers = {"dimension": 5, "image_size": 64}
        model.config.feature_source = None if source is None else source | numbers
        with pytest.raises(InputError, match=message):
            sparta.encode_images(photos, model)
    model.tokenizer = None
    with pytest.raises(InputError, match="no tokenizer"):
        sparta.encode_images(photos, model)


# ---- extras --------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", EXTRAS)
def test_a_missing_library_names_its_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert EXTRAS[module] in (metadata("visualsparta").get_all("Provides-Extra") or [])
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError) as error:
        require(module)
    advice = how_to_install(EXTRAS[module])
    assert str(error.value) == f"{module} is not installed; run: {advice}"


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("pyvenv.cfg", "pip install"),
        ("uv-receipt.toml", "uv tool install"),
        ("pipx_metadata.json", "pipx install --force"),
    ],
)
def test_extras_come_from_the_clone_by_the_tool_that_installed_it(
    file: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    clone, info = tmp_path / "my clone", tmp_path / "visualsparta-0.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: visualsparta\nVersion: 0.2.0\n")
    (info / "direct_url.json").write_text(json.dumps({"url": clone.as_uri(), "dir_info": {}}))
    monkeypatch.syspath_prepend(tmp_path)
    assert how_to_install("train") == f"{command} 'visualsparta[train]'"  # the clone is gone
    clone.mkdir()
    assert how_to_install("train") == f"{command} '{clone}[train]'"


def test_a_name_that_needs_torch_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sparta.visualsparta.model", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"torch is not installed.*\[train\]"):
        _ = sparta.VisualSparta
