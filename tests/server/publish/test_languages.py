"""Indexes of tokenizers that are not BERT's, in six languages, and their published sites."""

import json
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.build import build_index
from indexer.encoding.features import open_images
from indexer.engines.open import open_index
from indexer.search.searcher import Searcher
from indexer.settings import PruningSettings
from server.publish.publishing import Choices, publish
from sparta.adapt.folder import write_spelling
from sparta.visualsparta.model import VisualSparta
from tests.indexer.tiny import draw, save_model
from tests.languages import KINDS, SENTENCES
from tests.server.publish.collections import NodePage, answers, hosting
from tests.server.publish.test_search import WORDS, found, right, terms_of

TYPOS = {"elephant": "elepant", "Regenschirm": "Regenschrim", "велосипед": "велсипед"}
TYPOS |= {"ελέφαντα": "ελέφνατα"}
ODD = [
    "+犬 -Ball",
    '"red ball"^2 собака',
    "\uff25lephant 1990 🐕",
    "don't.",
    "海滩 zzz qqq",
    "<s> İ",
]
QUERIES = [*SENTENCES[::17], *TYPOS, *TYPOS.values(), "自転車", *ODD]


class Album(NamedTuple):
    """An index of drawn photos by a model of random weights, and its published site."""

    name: str
    engine: Searcher
    page: NodePage


@pytest.fixture(scope="module", params=KINDS)
def album(
    request: pytest.FixtureRequest, site: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Album]:
    name, folder = request.param, tmp_path_factory.mktemp("album")
    model, index = folder / "model", folder / "index"
    tokenizer = KINDS[name]()
    loaded = VisualSparta.from_pretrained(save_model(model, tokenizer))
    torch.nn.init.constant_(loaded.bias, 3)  # so that images have all terms
    loaded.save_pretrained(model)
    write_spelling(SENTENCES, tokenizer, model)
    for number in range(9):
        draw(folder / "photos" / f"{number}.png", number)
    images = open_images([folder / "photos"], [model], index, device="cpu")
    build_index(images, [model], index, PruningSettings(offset="none", top_n=900), device="cpu")
    publish(index, site / name, Choices())
    with hosting(site, True) as address, closing(open_index(index, "columns")) as engine:
        yield Album(name, engine, NodePage(site, address))


@pytest.mark.needs("Node.js")
def test_answers_and_explanations_equal_the_engine(album: Album) -> None:
    name, engine, page = album
    calls = [("search", query, {"k": 9, "explain": True}) for query in QUERIES]
    for query, answer in zip(QUERIES, answers(page, name, calls), strict=True):
        assert found(answer) == right(engine.search(query, 9)), query
        for hit in answer["hits"][:2]:
            assert hit["explanation"] == terms_of(engine.explain(query, hit["image_id"])), query
    assert all(engine.search(query).hits for query in SENTENCES[::17])


@pytest.mark.needs("Node.js")
def test_words_of_every_alphabet_are_completed_and_corrected(album: Album) -> None:
    name, engine, page = album
    for typed, typo in TYPOS.items():
        word = engine.language.tokenizer.fold(typed)
        assert word in [one.word for one in engine.complete(f"zzz {typed[:5]}", 5)]
        assert [one.term for one in engine.search(typo).substitutions] == [word]
        assert not engine.search(typed).substitutions
    beginnings = [typed[:end] for typed in [*TYPOS, "自転車", "海滩"] for end in (1, 3)]
    calls = [("complete", text, 6) for text in beginnings]
    for text, answer in zip(beginnings, answers(page, name, calls), strict=True):
        own = [(one["text"], one["word"], one["images"]) for one in answer]
        assert own == [tuple(one) for one in engine.complete(text, 6)], text


LETTERS = st.sampled_from([*"abeor ßéñςαέκабый狗海上犬がーアル한🐕12½'-.İ\u200d", *SENTENCES])


@pytest.mark.needs("Node.js")
@settings(max_examples=4)
@given(texts=st.lists(st.lists(LETTERS, max_size=9).map("".join), min_size=40, max_size=60))
def test_any_text_is_read_as_by_the_tokenizer(album: Album, texts: list[str]) -> None:
    """In the form in which queries reach the tokenizer."""
    texts = [unicodedata.normalize("NFKC", text) for text in texts]
    read = json.loads(album.page.evaluate(WORDS, [f"/{album.name}/index/", texts]))
    tokenizer = album.engine.language.tokenizer
    for text, own in zip(texts, read, strict=True):
        words = tokenizer.encode_query(text).words
        assert own == [[word.text, list(word.pieces)] for word in words], text
        parts = tokenizer.parts(text)
        assert words == tuple(w for part in parts for w in tokenizer.encode_query(part).words)
        pieces = [piece for word in words for piece in word.pieces]
        assert [tokenizer.vocabulary[i] for i in tokenizer.encode_ids(text)] == pieces


def test_terms_are_spelled_alike() -> None:
    """And neither special tokens, nor marks alone, nor parts of a character are terms."""
    for name, make in KINDS.items():
        tokenizer = make()
        query = tokenizer.encode_query("roter Elefant 犬 🐕")
        assert [word.text for word in query.words] == ["roter", "Elefant", "犬", "🐕"], name
        assert "".join(query.words[1].pieces).replace("##", "") == tokenizer.fold("Elefant")
        assert query.words[3].pieces == ()
        kept = {
            term for term, may in zip(tokenizer.vocabulary, tokenizer.indexable, strict=True) if may
        }
        assert {"犬", *query.pieces} <= kept
        assert kept.isdisjoint(["<s>", "<|e|>", "<unk>", "<unused0>", "<0xE7>", "\u2581", "\u0120"])
        assert not any(mark in term for term in kept for mark in ("\u0120", "</w>"))
