from pathlib import Path

import numpy as np
import pytest
import torch

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.visualsparta.model import VisualSparta
from tests import tiny
from tests.training.teacher.inputs import TEXTS
from training.teacher.teachers import Ensemble
from training.visualsparta.dataset import learn_vocabulary

CPU = torch.device("cpu")


def save(folder: Path, shift: float, untrained: list[int]) -> VisualSparta:
    model = tiny.model()
    with torch.no_grad():
        model.query_embedding.weight.add_(shift)
        model.trained_terms[untrained] = False
    model.save_pretrained(folder)
    return model


def test_term_scores_are_averaged_over_models_and_stores(
    stores: list[FeatureStore], tmp_path: Path
) -> None:
    made = [save(tmp_path / "a", 0.0, [7, 8]), save(tmp_path / "b", 0.1, [8, 9])]
    names = [str(tmp_path / name) for name in "ab"]
    teacher = Ensemble(names, stores, CPU)
    terms = teacher.terms.tolist()
    assert terms == [i for i in range(6, len(tiny.VOCABULARY)) if i != 8]  # neither knows 8
    found = np.concatenate(list(teacher.photos(stores[0].ids, 1)))
    each = [
        model.term_scores(tiny.batch(list(store)[1:])).scores[:, terms]
        for model in made
        for store in stores[:2]
    ]
    assert np.allclose(found, torch.stack(each).mean(dim=0), atol=1e-3)
    half = Ensemble(names, stores, CPU, torch.bfloat16)
    rounded = np.concatenate(list(half.photos(stores[0].ids, 1)))
    assert not np.array_equal(rounded, found) and np.allclose(rounded, found, atol=0.02)
    columns = teacher.columns()
    assert [columns[term] for term in terms] == list(range(len(terms)))
    assert set(columns[[0, 5, 8]]) == {-1}


def test_sentences_are_counts_of_trained_terms(stores: list[FeatureStore], tmp_path: Path) -> None:
    save(tmp_path / "a", 0.0, [tiny.VOCABULARY.index("dog")])
    teacher = Ensemble([str(tmp_path / "a")], stores, CPU)
    counts = teacher.counts(TEXTS).toarray()
    words = [tiny.VOCABULARY[term] for term in teacher.terms]
    found = [{words[i]: n for i, n in enumerate(row) if n} for row in counts]
    assert found[:3] == [{"a": 1, "brown": 1}, {"the": 1, "red": 1, "ball": 1}, {}]
    assert found[3:] == [{"two": 1, "by": 1, "the": 2, "sea": 2}, {}]


def test_models_that_cannot_teach_together_are_refused(
    stores: list[FeatureStore], tmp_path: Path
) -> None:
    save(tmp_path / "a", 0.0, [])
    other = tiny.model()
    other.tokenizer = learn_vocabulary(["a dog"], 20)
    other.save_pretrained(tmp_path / "b")
    with pytest.raises(InputError, match="b has another vocabulary than"):
        Ensemble([str(tmp_path / "a"), str(tmp_path / "b")], stores, CPU)
    (tmp_path / "b" / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"b has no tokenizer\.json"):
        Ensemble([str(tmp_path / "b")], stores, CPU)
    (tmp_path / "b" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="b is not a VisualSparta model"):
        Ensemble([str(tmp_path / "b")], stores, CPU)
