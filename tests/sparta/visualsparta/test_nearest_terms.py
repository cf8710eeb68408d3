"""Tables of substitutes, made by a tiny text encoder, and `sparta convert` of a model."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertModel
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.visualsparta import nearest_terms
from sparta.visualsparta.model import VisualSparta
from sparta.visualsparta.nearest_terms import WordEncoder, make_substitutes
from sparta.word_tables import WordTables
from tests import tiny
from tests.sparta.vse.models import save_bert

UNTRAINED = ["cat", "sea", "the", "##s"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def model() -> VisualSparta:
    made = tiny.model()
    made.term_frequencies.fill_(7)
    made.term_frequencies[tiny.VOCABULARY.index("dog")] = 900
    made.term_frequencies[tiny.VOCABULARY.index("ball")] = 2  # too few
    for term in UNTRAINED:
        made.trained_terms[tiny.VOCABULARY.index(term)] = False
        made.term_frequencies[tiny.VOCABULARY.index(term)] = 0
    return made


def slow_vectors(encoder: Path, words: list[str]) -> np.ndarray:
    """One word at a time, without padding."""
    bert = BertModel.from_pretrained(encoder).eval()
    rows = []
    for word in words:
        ids = tiny.tokenizer().encode_ids(f"a photo of a {word}")
        # "photo" and "of" are unknown to the tiny vocabulary, but take part as [UNK].
        ids = [ids[0], 1, 1, *ids[1:]]
        with torch.inference_mode():
            rows.append(bert(torch.tensor([ids])).last_hidden_state[0].mean(dim=0).numpy())
    found = np.stack(rows)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    found -= found.mean(axis=0)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_words_get_the_nearest_trained_terms_frequent_ones_first(
    model: VisualSparta, encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest_terms, "MINIMUM_SIMILARITY", 0.1)
    monkeypatch.setattr(nearest_terms, "BATCH", 4)
    monkeypatch.setattr(nearest_terms, "CHUNK", 2)
    stages: list[tuple[str, int, int]] = []
    table = make_substitutes(model, WordEncoder(encoder), lambda *stage: stages.append(stage))
    words = [word for word in tiny.WORDS if len(word) >= 3 and word.isalpha()]
    assert stages[-1] == ("embed", len(words), len(words))
    vectors = slow_vectors(encoder, words)
    for word in ("cat", "sea", "the"):
        near = vectors @ vectors[words.index(word)]
        keys = {
            other: near[i] + 0.05 * np.log10(900 if other == "dog" else 7)
            for i, other in enumerate(words)
            if other not in (*UNTRAINED, "ball")
        }
        best = sorted(keys, key=lambda other: -keys[other])[:3]
        right = [(other, near[words.index(other)]) for other in best]
        right = [(other, cosine) for other, cosine in right if cosine >= 0.1]
        found = table.get(word, ())
        assert [term for term, _ in found] == [other for other, _ in right]
        assert [near for _, near in found] == pytest.approx([c for _, c in right], abs=1e-4)
    assert set(table) <= {"cat", "sea", "the"}
    monkeypatch.setattr(nearest_terms, "MINIMUM_SIMILARITY", 1.1)
    assert len(make_substitutes(model, WordEncoder(encoder))) == 0
    model.trained_terms.fill_(True)
    assert len(make_substitutes(model, WordEncoder(encoder))) == 0


def test_a_model_without_frequent_words_is_refused(model: VisualSparta, encoder: Path) -> None:
    model.term_frequencies.fill_(2)
    with pytest.raises(InputError, match="records no word that 3 training captions contain"):
        make_substitutes(model, WordEncoder(encoder))


def test_an_encoder_needs_weights_and_a_tokenizer(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((encoder / "tokenizer.json").read_bytes())
    with pytest.raises(InputError, match=r"is not a text encoder: it has no config\.json"):
        WordEncoder(tmp_path)
    BertModel.from_pretrained(encoder).save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        WordEncoder(tmp_path / "bare")


def converted(model: Path, out: Path, *options: str | Path) -> str:
    arguments = ["convert", model, "--out", out, *options]
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    if done.exception:
        raise done.exception
    return done.output.replace("\n", " ")


def test_a_model_becomes_small(tmp_path: Path) -> None:
    model = tiny.model(use_labels=False)
    model.trained_terms[:10] = False
    model.save_pretrained(tmp_path / "model")
    out = tmp_path / "small"
    assert "15 trained terms" in converted(tmp_path / "model", out)
    assert torch.equal(VisualSparta.from_pretrained(out).trained_terms, model.trained_terms)
    with pytest.raises(InputError, match="is not empty"):
        converted(tmp_path / "model", out)
    with pytest.raises(InputError, match="are of checkpoints"):
        converted(tmp_path / "model", tmp_path / "other", "--text", "bert")


def test_the_command_gives_a_model_its_table(
    model: VisualSparta, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest_terms, "MINIMUM_SIMILARITY", -1.0)
    model.save_pretrained(tmp_path / "model")
    made, copied = tmp_path / "made", tmp_path / "copied"
    shown = converted(tmp_path / "model", made, "--substitutes", encoder)
    assert "substitutes of 3 words" in shown
    converted(made, copied)
    assert WordTables.open(made) == WordTables.open(copied)
    assert len(WordTables.open(made).substitutes["cat"]) == 3
