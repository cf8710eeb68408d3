"""Dual encoders of random weights: from `sparta adapt` to an index, against the definition."""

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.testing import assert_close
from transformers import AutoModel
from typer.testing import CliRunner

import indexer.index
from sparta.adapt import adapt as module
from sparta.adapt.sentences import generated_sentences
from sparta.adapt.towers import open_dual_encoder
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.extract.image_files import load_photo
from sparta.networks.pretrained import load_preprocessing
from sparta.visualsparta.encode_photos import encode_images
from sparta.visualsparta.model import VisualSparta
from tests.disk_errors import failing
from tests.indexer.command_line import sparta_here
from tests.needs import EVERY
from tests.training.encoders import ENCODERS, SIDE, clip

SENTENCES = ["a red photo", "a photo of green and blue", "blue", "a green photo of red"]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(70):
        colour = rng.integers(0, 255, 3)
        noise = rng.integers(-40, 40, (20 + number, 60, 3))
        pixels = np.clip(colour + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"p{number:02d}.png")
    (folder.parent / "sentences.txt").write_text("\n".join(SENTENCES * 10))
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps, few words of the vocabulary in prompts, few generated sentences."""
    monkeypatch.setattr(module, "generated_sentences", partial(generated_sentences, 500))
    monkeypatch.setattr(module, "STEPS", 20)
    monkeypatch.setattr(module, "_is_word", ["red", "green", "blue", "yellow"].__contains__)


def run(*arguments: str | Path) -> str:
    found = CliRunner().invoke(cli, [*map(str, arguments)])
    assert found.exit_code == 0, found.output
    return found.output


def alone(*arguments: str | Path) -> str:
    """Standard output of a process of its own: its threads would harm tests that fork."""
    command = [sys.executable, "-m", "sparta", *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


def refused(*arguments: str | Path) -> str:
    found = CliRunner().invoke(cli, [*map(str, arguments)])
    assert isinstance(found.exception, InputError), found.output
    return str(found.exception)


def pixels(folder: Path, photo: Path) -> torch.Tensor:
    """A photo [1, 3, side, side] as the dual encoder reads it."""
    preprocessing = load_preprocessing(str(folder), None)
    image = load_photo(photo, SIDE).image.convert("RGB")
    square = image.resize((SIDE, SIDE), preprocessing.resample)
    values: torch.Tensor = preprocessing(torch.from_numpy(np.array(square)).permute(2, 0, 1)[None])
    return values


@torch.inference_mode()
def embedded(folder: Path, photo: Path) -> torch.Tensor:
    """The dual encoder's own vector [d] of a photo."""
    dual, values = AutoModel.from_pretrained(folder).eval(), pixels(folder, photo)
    given = {"pixel_values": values}
    if dual.config.model_type == "siglip2":
        cells = values.unfold(2, 8, 8).unfold(3, 8, 8)  # [1, 3, 4, 4, 8, 8]
        patches = cells.permute(0, 2, 3, 4, 5, 1).reshape(1, 16, -1)
        given = {"pixel_values": patches, "pixel_attention_mask": torch.ones(1, 16).int()}
        given["spatial_shapes"] = torch.tensor([[4, 4]])
    vector: torch.Tensor = dual.get_image_features(**given).pooler_output[0]
    return vector


@torch.inference_mode()
def defined(folder: Path, photo: Path, model: VisualSparta) -> dict[str, float]:
    """Term scores of a photo by the dual encoder itself."""
    vector = embedded(folder, photo)
    hidden = torch.cat([vector / vector.norm(), torch.ones(1)])
    assert model.tokenizer is not None
    scores = {}
    for term in model.trained_terms.nonzero()[:, 0].tolist():
        product = float(model.query_embedding.weight[term] @ hidden + model.bias)
        scores[model.tokenizer.vocabulary[term]] = float(np.log1p(max(product, 0.0)))
    return {term: score for term, score in scores.items() if score > 0}


@pytest.mark.parametrize("kind", ENCODERS if EVERY else ["clip", "siglip2"])
def test_term_scores_are_those_of_the_encoder_and_need_it_no_more(
    kind: str, photos: Path, tmp_path: Path
) -> None:
    encoder, model = ENCODERS[kind](tmp_path / kind), tmp_path / "model"
    sentences = photos.parent / "sentences.txt"
    said = run("adapt", encoder, "--photos", photos, "--sentences", sentences, "--out", model)
    assert "its first hit among our first 1, 5, 10" in " ".join(said.split())
    loaded = VisualSparta.from_pretrained(model)
    names = [photos / f"p{number:02d}.png" for number in (0, 33, 69)]
    wanted = [defined(encoder, name, loaded) for name in names]
    reranked, rerank = str(tmp_path / "reranked"), ("--rerank", "70")
    alone("index", photos, "--model", model, *rerank, "--float32", "--out", reranked)
    moved = encoder.rename(tmp_path / "moved")
    text = open_dual_encoder(moved, torch.device("cpu")).embed(["red green"])[0].float()
    hits = json.loads(alone("search", reranked, "red green", "-k", "3", *rerank, "--json"))["hits"]
    for hit in hits:
        vector = embedded(moved, photos / hit["image_id"])
        cosine = float(torch.cosine_similarity(text, vector, dim=0))
        assert hit["similarity"] == pytest.approx(cosine, abs=2e-3)
    assert hits
    for scores, expected in zip(encode_images(names, model).values(), wanted, strict=True):
        for term in scores.keys() | expected.keys():
            assert scores.get(term, 0) == pytest.approx(expected.get(term, 0), abs=0.03)
    run("index", photos, "--model", model, "--out", tmp_path / "index", "--top-n", "all")
    index = indexer.index.open(tmp_path / "index")
    answer = index.search("red green", k=70)
    assert answer.hits and all(hit.score > 0 for hit in answer.hits)
    run("publish", tmp_path / "index", "--out", tmp_path / "site")


def test_indexing_with_a_model_imports_no_torch(photos: Path, tmp_path: Path) -> None:
    """Its image tower is in OpenVINO; the first index converts what makes terms of vectors."""
    encoder, model = clip(tmp_path / "clip"), tmp_path / "model"
    sentences = photos.parent / "sentences.txt"
    run("adapt", encoder, "--photos", photos, "--sentences", sentences, "--out", model)
    shutil.rmtree(encoder)
    run("index", photos, "--model", model, "--out", tmp_path / "first")
    code = (
        "import sys; from sparta.command_line import cli;"
        "cli(sys.argv[1:], standalone_mode=False);"
        "print({'torch', 'transformers'} & {*sys.modules})"
    )
    arguments = "index", photos, "--model", model, "--out", tmp_path / "second"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0 and found.stdout.endswith("set()\n"), found.stderr


def test_patches_take_part_in_the_maximum(photos: Path, tmp_path: Path) -> None:
    encoder, model = clip(tmp_path / "clip"), tmp_path / "model"
    sentences = photos.parent / "sentences.txt"
    options: list[str | Path] = ["--sentences", sentences, "--patches", "--out", model]
    run("adapt", encoder, "--photos", photos, *options)
    loaded = VisualSparta.from_pretrained(model)
    assert loaded.tokenizer is not None and not (model / "offsets.npz").exists()
    dual, won = AutoModel.from_pretrained(encoder).eval(), 0
    names = [photos / f"p{number:02d}.png" for number in (0, 33, 69)]
    for name, found in zip(names, encode_images(names, model).values(), strict=True):
        with torch.inference_mode():
            seen = dual.vision_model(pixels(encoder, name)).last_hidden_state[0, 1:]
            patches = dual.visual_projection(dual.vision_model.post_layernorm(seen))
        places = [embedded(encoder, name), *patches]
        for term in loaded.trained_terms.nonzero()[:, 0].tolist():
            *vector, bias = loaded.query_embedding.weight[term].tolist()
            products = [float(h / h.norm() @ torch.tensor(vector)) + bias for h in places]
            score = np.log1p(max(0.0, *products))
            own = found.get(loaded.tokenizer.vocabulary[term], 0)
            assert own == pytest.approx(score, abs=0.03)
            won += own > np.log1p(max(0.0, products[0])) + 0.05
    assert won


def test_a_table_says_what_is_kept(photos: Path, tmp_path: Path) -> None:
    encoder, model = clip(tmp_path / "clip"), tmp_path / "model"
    captions = tmp_path / "captions.jsonl"
    lines = [{"image": f"p{n:02d}.png", "captions": SENTENCES[n % 4 :][:1]} for n in range(70)]
    captions.write_text("\n".join(map(json.dumps, lines)))
    run("adapt", encoder, "--photos", photos, "--captions", captions, "--out", model)
    kept = json.loads((model / "retention.json").read_text())
    assert kept["captions"] == 7 and len(kept["recall"]) == len(kept["dense_recall"]) == 3
    assert kept["dense_bytes"] == 16 and kept["photos"] == 70
    assert "its ten best among ours" in (model / "README.md").read_text()
    assert [one.name for one in tmp_path.iterdir() if "work" in one.name] == []


def test_an_index_of_a_dual_encoder_makes_its_model_once(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUALSPARTA_CACHE", str(tmp_path / "cache"))
    encoder = clip(tmp_path / "clip")
    said = run("index", photos, "--model", encoder, "--out", tmp_path / "first")
    assert "Fitting term vectors" in said
    said = run("index", photos, "--model", encoder, "--out", tmp_path / "second")
    assert "Fitting term vectors" not in said
    first, second = (indexer.index.open(tmp_path / name) for name in ("first", "second"))
    assert first.search("red").hits == second.search("red").hits
    few = tmp_path / "few"  # too few to guide a model, which is not that of many then
    few.mkdir()
    for one in sorted(photos.iterdir())[:3]:
        shutil.copy(one, few)
    said = run("index", few, "--model", encoder, "--out", tmp_path / "third")
    assert "Sentence vectors" in said and "Fitting term vectors" not in said
    extra = tmp_path / "more"
    extra.mkdir()
    shutil.copy(photos / "p01.png", extra / "new.png")
    run("add", tmp_path / "first", extra)
    assert len(indexer.index.open(tmp_path / "first")) == 71


def test_stored_embeddings_stand_for_the_photos(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, few = clip(tmp_path / "clip"), tmp_path / "few"
    few.mkdir()
    names = [f"p{number:02d}.png" for number in range(70)]
    for name in names:
        shutil.copy(photos / name, few)
    vectors = tmp_path / "vectors.npy"
    np.save(vectors, torch.stack([embedded(encoder, few / name) for name in names]).numpy())
    vectors.with_suffix(".txt").write_text("\n".join(names))
    options: list[str | Path] = [
        "--photos",
        vectors,
        "--sentences",
        photos.parent / "sentences.txt",
    ]
    run("adapt", encoder, *options, "--out", tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr(module, "MOST_PHOTOS", 66)
        run("adapt", encoder, *options, "--out", tmp_path / "sampled")
    assert json.loads((tmp_path / "sampled/retention.json").read_text())["photos"] == 66
    scores = []
    for source in (few, vectors):
        out = tmp_path / f"of {source.name}"
        options = ["--model", tmp_path / "model", "--top-n", "all", "--float32"]
        run("index", source, *options, "--out", out)
        hits = indexer.index.open(out).search("red green blue", k=70).hits
        scores.append({hit.image_id: hit.score for hit in hits})
    assert scores[0].keys() == scores[1].keys()
    assert scores[0] == pytest.approx(scores[1], rel=0.03)


def test_sentences_alone_make_a_model_whose_index_measures_offsets(
    photos: Path, tmp_path: Path
) -> None:
    inner = clip(tmp_path / "sentence-transformers" / "0_CLIPModel")
    modules = [{"idx": 0, "path": inner.name, "type": "sentence_transformers.models.CLIPModel"}]
    (inner.parent / "modules.json").write_text(json.dumps(modules))
    sentences, model = photos.parent / "sentences.txt", tmp_path / "model"
    said = run("adapt", inner.parent, "--sentences", sentences, "--out", model)
    assert "Not measured: give photos" in said and not (model / "offsets.npz").exists()
    run("index", photos, "--model", model, "--out", tmp_path / "index")
    assert indexer.index.open(tmp_path / "index").search("red green", k=3).hits


def test_a_killed_adaptation_continues(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = clip(tmp_path / "clip")
    sentences = photos.parent / "sentences.txt"
    given: list[str | Path] = ["--photos", photos, "--sentences", sentences]
    run("adapt", encoder, *given, "--out", tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_save", None)
        for seed in ("1", "0"):  # what another seed left is not continued
            line = ["adapt", encoder, *given, "--seed", seed, "--out", tmp_path / "killed"]
            assert CliRunner().invoke(cli, [*map(str, line)]).exit_code == 1
    run("adapt", encoder, *given, "--out", tmp_path / "killed")
    whole, killed = (
        VisualSparta.from_pretrained(tmp_path / name).query_embedding.weight
        for name in ("whole", "killed")
    )
    assert_close(killed, whole, rtol=0, atol=0)


def test_an_adaptation_on_a_failing_disk_says_so_and_continues(
    photos: Path, tmp_path: Path
) -> None:
    encoder = str(clip(tmp_path / "clip"))
    sentences = str(photos.parent / "sentences.txt")

    def adapt(out: Path) -> CompletedProcess[str]:
        given = ["--photos", str(photos), "--sentences", sentences, "--out", str(out)]
        return sparta_here("adapt", encoder, *given)

    def weights(out: Path) -> Tensor:
        return VisualSparta.from_pretrained(out).query_embedding.weight

    def content(out: Path) -> list[Path]:
        return sorted(one.relative_to(out) for one in out.rglob("*"))

    (whole := tmp_path / "whole").mkdir()
    with failing(whole) as disk:
        assert adapt(whole / "out").returncode == 0
    calls = len(disk.calls)
    assert calls > 5
    for fail_at in range(0, calls, 1 if EVERY else calls // 2):
        (folder := tmp_path / str(fail_at)).mkdir()
        with failing(folder, fail_at) as one:
            done = adapt(folder / "out")
        said = f"{one.calls[fail_at:]}: {done.stdout} {done.stderr}"
        if done.returncode:
            assert done.stderr.strip().splitlines()[-1].startswith("error: "), said
            assert adapt(folder / "out").returncode == 0, said
        assert_close(weights(folder / "out"), weights(whole / "out"), rtol=0, atol=0)
        assert content(folder / "out") == content(whole / "out"), said  # card and figures, too


def test_what_is_no_dual_encoder_is_refused(photos: Path, tmp_path: Path) -> None:
    out: list[str | Path] = ["--photos", photos, "--out", tmp_path / "out"]
    assert "VisualSparta model already" in refused("adapt", "photos", *out)
    bert = tmp_path / "bert"
    bert.mkdir()
    (bert / "config.json").write_text('{"model_type": "bert"}')
    assert "which is no dual encoder: give a model such as CLIP" in refused("adapt", bert, *out)
    encoder = clip(tmp_path / "clip")
    (tmp_path / "out").mkdir()
    assert "exists: name another folder" in refused("adapt", encoder, *out)
    captions = tmp_path / "captions.jsonl"
    captions.write_text('{"image": "p00.png", "captions": ["red"]}')
    said = refused("adapt", encoder, "--captions", captions, "--out", tmp_path / "other")
    assert "give their folder with --photos" in said
    np.save(tmp_path / "v.npy", np.eye(8))
    (tmp_path / "v.txt").write_text("\n".join("abcdefgh"))
    given: list[str | Path] = ["--photos", tmp_path / "v.npy", "--out", tmp_path / "other"]
    assert "holds embeddings of whole photos" in refused("adapt", encoder, "--patches", *given)
