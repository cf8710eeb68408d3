"""The whole forward pass against slow and obvious re-computation, and models on disk."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.visualsparta.image_head import DenseHead
from sparta.vse.aggregators import POOLINGS
from sparta.vse.batch import PixelBatch, RegionBatch, real_rows
from sparta.vse.encoders import WholeProjection
from sparta.vse.init import from_captions
from sparta.vse.model import VseModel, score, view_scores
from tests import tiny
from tests.sparta.vse import published
from tests.sparta.vse.models import SENTENCES, affine, bert, bigru, regions, texts

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


# ---- images -------------------------------------------------------------------------------------


def test_views_are_poolings_of_one_projection_or_have_their_own() -> None:
    shared, separate = (
        bigru(views=3, visual_pooling="gpo", view_projections=kind)
        for kind in ("shared", "separate")
    )
    assert (len(shared.visual_projections), len(separate.visual_projections)) == (1, 3)
    for model in (shared, separate):
        batch = regions()
        found = model.encode_images(batch)
        for view in range(3):
            own: Any = model.visual_projections[view % len(model.visual_projections)]
            pooling: Any = model.visual_poolings[view]
            features = own(batch.regions.float(), batch.lengths)
            pooled = pooling(features, batch.lengths)
            expected = torch.stack([published.unit(row) for row in pooled])
            assert_close(found[:, view], expected, **CLOSE)
        assert not torch.allclose(found[:, 0], found[:, 1], atol=1e-3)


def dual(folder: Path) -> VseModel:
    return bert(folder, sentence=True, visual="whole", visual_width=6)


def test_a_whole_photo_is_projected_by_its_last_region_alone(tmp_path: Path) -> None:
    """As the image encoder of term vectors, the model is given every region by itself, too."""
    model, batch = dual(tmp_path), regions()
    projection = model.visual_projections[0]
    assert isinstance(projection, WholeProjection)
    expected = projection.head.direction(batch.regions)
    found = model.encode_images(batch)
    for row, length in enumerate(batch.lengths.tolist()):
        assert_close(found[row, 0], expected[row, length - 1], **CLOSE)
    head = DenseHead(model.config.to_dict())
    head.dense.load_state_dict({k: v for k, v in model.state_dict().items() if "visual" in k})
    vectors, mask = head.eval()(batch.regions, real_rows(batch.lengths, batch.regions.shape[1]))
    assert mask.sum(dim=1).tolist() == (batch.lengths + 1).tolist()
    assert_close(vectors[..., -1], torch.ones(vectors.shape[:2]))
    assert_close(vectors[:, -1, :-1], found[:, 0], **CLOSE)
    assert_close(vectors[:, :-1, :-1][mask[:, :-1]], expected[mask[:, :-1]], **CLOSE)


def test_dropout_is_for_training_alone(tmp_path: Path) -> None:
    """Of a model's own; a BERT's, that is in eval mode here, apart."""
    given: dict[str, Any] = {"input_dropout": 0.5, "text_dropout": 0.5, "visual": "grid"}
    for model in (bigru(**given), bert(tmp_path, **given)):
        for encode in (
            lambda model=model: model.encode_images(regions()),
            lambda model=model: model.encode_texts(texts(model)),
        ):
            once = encode()
            assert torch.equal(encode(), once)
            model.train()
            if model.text_encoder is not None:
                model.text_encoder.eval()
            assert not torch.allclose(encode(), once, atol=1e-3)
            model.eval()


# ---- texts --------------------------------------------------------------------------------------


def test_a_sentence_is_a_mean_vector_and_its_word_pieces(tmp_path: Path) -> None:
    model = dual(tmp_path)
    tokenizer, encoder, head = model.tokenizer, model.text_encoder, model.text_head
    assert tokenizer is not None and encoder is not None
    found = model.embed_texts(SENTENCES)
    with torch.no_grad():
        for row, text in zip(found, SENTENCES, strict=True):
            ids = torch.tensor([tokenizer.encode(text)])
            mean = encoder(ids).last_hidden_state[0].mean(dim=0)
            x = mean / mean.norm() * math.sqrt(32)
            hidden = torch.nn.functional.gelu(affine(head.hidden, x[None]))
            pieces = head.bag.weight[ids[0]].sum(dim=0)
            total = affine(head.skip, x) + affine(head.output, hidden)[0] + pieces
            assert_close(row, total / total.norm(), **CLOSE)


def test_texts_as_typed_are_embedded_in_eval_mode() -> None:
    model = bigru(text_dropout=0.5)
    expected = model.encode_texts(texts(model)).detach()
    model.train()
    model.visual_projections.eval()
    for batch_size in (1, 2, 128):
        found = model.embed_texts(SENTENCES, batch_size)
        assert_close(found, expected, **CLOSE)
        assert not found.requires_grad
    assert model.training
    assert model.word_encoder.dropout.training
    assert not model.visual_projections.training  # what was frozen stays so
    assert not model.eval().embed_texts(["a dog"]).isnan().any()
    assert not model.training
    assert model.embed_texts([]).shape == (0, 8)


def test_texts_need_a_tokenizer_and_photos_a_vision_network(tmp_path: Path) -> None:
    model = bigru()
    model.tokenizer = None
    with pytest.raises(ValueError, match="no tokenizer"):
        model.embed_texts(["a dog"])
    model.save_pretrained(tmp_path)
    assert VseModel.from_pretrained(tmp_path).tokenizer is None
    with pytest.raises(ValueError, match="no vision network"):
        model.encode_images(PixelBatch(torch.zeros(1, 3, 8, 8, dtype=torch.uint8)))


# ---- scores -------------------------------------------------------------------------------------


def test_the_best_view_counts() -> None:
    torch.manual_seed(0)
    words, images = torch.randn(3, 4), torch.randn(5, 2, 4)
    by_view, best = view_scores(words, images), score(words, images)
    assert (by_view.shape, best.shape) == ((3, 5, 2), (3, 5))
    winners = set()
    for q, text in enumerate(words):
        for i, image in enumerate(images):
            products = [float(sum(text * view)) for view in image]
            assert_close(by_view[q, i].tolist(), products, **CLOSE)
            assert_close(best[q, i].item(), max(products), **CLOSE)
            winners.add(products.index(max(products)))
    assert winners == {0, 1}


@pytest.mark.parametrize("kind", ["bigru", "bert"])
def test_every_parameter_gets_a_finite_gradient(kind: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"views": 2, "visual_pooling": "gpo", "text_pooling": "adpool"}
    model = (bigru(**options) if kind == "bigru" else bert(tmp_path, **options)).train()
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(texts(model), regions())
        words, images = model.encode_texts(texts(model)), model.encode_images(regions())
    assert words.dtype == images.dtype == found.dtype == torch.float32
    (found * torch.randn_like(found)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    for part in (model.visual_projections, model.text_pooling, model.get_input_embeddings()):
        for parameter in part.parameters():
            assert parameter.grad is not None and parameter.grad.any()


def test_the_square_root_keeps_signs() -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"square_root": True, "visual": "grid"}
    source = replace(tiny.source(), kind="grid")
    model = from_captions(["a dog"], source, min_count=1, dimension=8, **options).eval()
    visual = torch.randn(2, 3, source.dimension)
    lengths = torch.tensor([3, 3])
    found = model.encode_images(RegionBatch(visual, lengths))
    assert found.isfinite().all()
    model.config.square_root = False
    rooted = torch.tensor([math.copysign(math.sqrt(abs(x)), x) for x in visual.flatten().tolist()])
    wanted = model.encode_images(RegionBatch(rooted.view_as(visual), lengths))
    torch.testing.assert_close(found, wanted)


def assert_same(loaded: VseModel, model: VseModel) -> None:
    expected = model.state_dict()
    assert loaded.state_dict().keys() == expected.keys()
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, expected[name]), name
    # Weights lie elsewhere in memory, which may change the order of a sum.
    assert_close(loaded.encode_images(regions()), model.encode_images(regions()))
    assert_close(loaded.embed_texts(SENTENCES), model.embed_texts(SENTENCES))


@pytest.mark.parametrize("name", POOLINGS)
def test_saved_and_loaded_model_is_the_same(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"visual_pooling": name, "text_pooling": name, "views": 2}
    options |= {"view_projections": "separate", "square_root": True, "max_regions": 9}
    options |= {"visual_pooling_options": {"k": 2}} if name == "k-max" else {}
    model = bigru(name="mine", **options)
    model.save_pretrained(tmp_path)
    loaded = VseModel.from_pretrained(tmp_path)
    assert not loaded.training
    assert loaded.config.name == "mine"
    assert loaded.config.feature_source == model.config.feature_source
    assert {key: getattr(loaded.config, key) for key in options} == options
    assert_same(loaded, model)
    model.half().save_pretrained(tmp_path)
    assert {p.dtype for p in VseModel.from_pretrained(tmp_path).parameters()} == {torch.float32}


def test_a_model_over_word_pieces_needs_nothing_else(tmp_path: Path) -> None:
    model = bert(tmp_path / "bert", text_pooling="gpo")
    model.save_pretrained(tmp_path / "model")
    for file in (tmp_path / "bert").iterdir():
        file.unlink()
    loaded = VseModel.from_pretrained(tmp_path / "model")
    assert_same(loaded, model)
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.max_length == 40
    assert str(tmp_path) not in (tmp_path / "model" / "config.json").read_text()


def test_what_is_no_vse_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere does not exist"):
        VseModel.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"it has no config\.json of one"):
        VseModel.from_pretrained(tmp_path)
    tiny.model().save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"is not a VSE model: its config.json is of a visual_sp"):
        VseModel.from_pretrained(tmp_path)
    model = bigru()
    model.save_pretrained(tmp_path)
    tiny.tokenizer().save(tmp_path)
    known = model.config.vocabulary_size
    with pytest.raises(InputError, match=f"{tmp_path}: .* 25 entries, the model embeds {known}:"):
        VseModel.from_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(load_file(path) | {"another.weight": torch.zeros(2)}, path, {"format": "pt"})
    with pytest.raises(InputError, match=r"unexpected weights in its file: another\.weight"):
        VseModel.from_pretrained(tmp_path)


def edit(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"visual": "pixel"}, "visual: 'pixel' is not one of region, grid, patch"),
        ({"text": "bert"}, "text: 'bert' with text_encoder: None"),
        ({"visual_pooling": "best"}, "there is no pooling 'best'"),
        ({"dimension": 10}, "not a whole VSE model"),
        ({"text_pooling": "gpo"}, "missing weights in its file: text_pooling.gru"),
    ],
)
def test_a_damaged_folder_is_named(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    bigru().save_pretrained(tmp_path)
    edit(tmp_path, **fields)
    with pytest.raises(InputError, match=message) as caught:
        VseModel.from_pretrained(tmp_path)
    assert str(tmp_path) in str(caught.value)
