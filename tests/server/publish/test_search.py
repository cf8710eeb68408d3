"""The search in a browser equals the reference scorer, the engines and the tokenizer."""

from __future__ import annotations

import gzip
import json
import subprocess
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page

from indexer.answer import Answer as Found
from indexer.answer import Explanation
from indexer.engines.open import open_index
from indexer.filters.expression import FilterError
from indexer.filters.syntax import parse_filter
from indexer.postings import Postings
from indexer.query import QueryError, parse
from indexer.search.searcher import Searcher
from server.publish.collection import open_collection
from server.publish.publishing import OWN
from sparta.tokenizer import TermTokenizer
from sparta.word_tables import Substitute
from tests.indexer.random_postings import random_postings, shards_of, word_tables, write_postings
from tests.indexer.vocabulary import EVERY_WORD
from tests.needs import NODE_MODULES
from tests.reference.searcher import ReferenceSearcher
from tests.server.publish.collections import answers, collection_of, publish_collection
from tests.server.publish.firefox import FirefoxPage

SHIPPED = Path(__file__).parents[3] / "sparta" / "visualsparta" / "shipped" / "photos"
TABLE = {
    "zebra": (Substitute("missing", 0.9), Substitute("cat", 0.5)),
    "dog": (Substitute("cat", 0.4),),
}
SELDOM = {"cat", "beach", "##s"}

Answer = dict[str, Any]


def on(host: str, *values: Any) -> Any:
    """Parameters of a test that asks for the fixture of a host by its name."""
    need = "Firefox" if host == "firefox" else "Chromium"
    return pytest.param(host, *values, marks=pytest.mark.needs(need))


def hits_of(answer: Answer) -> list[tuple[str, float]]:
    return [(hit["image_id"], hit["score"]) for hit in answer["hits"]]


def found(answer: Answer) -> Answer:
    """What answers of the browser, the engines and the reference have in common."""
    names = ("unknown", "rare", "substitutions", "conditions")
    return {name: answer[name] for name in names} | {"hits": hits_of(answer)}


def right(result: Found) -> Answer:
    return found(result.as_json())


def terms_of(explanation: Explanation) -> list[Answer]:
    """Boxes are stored in 65,535 steps."""
    terms = map(asdict, explanation.terms)
    return [one | {"box": one["box"] and pytest.approx([*one["box"]], abs=1e-5)} for one in terms]


# ---- random collections against the reference scorer -------------------------------------------

queries = st.lists(st.sampled_from(EVERY_WORD), min_size=1, max_size=12).map(" ".join)
counts = st.sampled_from([1, 7, 30, 1000])


@pytest.mark.parametrize(
    ("host", "bits"),
    [on("blank", 8), on("blank", 16), on("plain", 8), on("firefox", 8)],
)
@settings(max_examples=5, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    images=st.integers(0, 700),
    seed=st.integers(0, 1000),
    chunk=st.sampled_from([8, 64, 4096]),
    asked=st.lists(st.tuples(queries, counts, st.booleans()), min_size=4, max_size=12),
)
@example(images=187, seed=901, chunk=4096, asked=[("dog", 1, False)] * 4)  # a tie at the tenth term
def test_answers_equal_the_reference(
    request: pytest.FixtureRequest,
    site: Path,
    tokenizer: TermTokenizer,
    host: str,
    bits: int,
    images: int,
    seed: int,
    chunk: int,
    asked: list[tuple[str, int, bool]],
) -> None:
    postings = random_postings(tokenizer, images, seed)
    if bits == 16:
        postings.impacts[:] *= 257
    name = f"{host}-{bits}-{images}-{seed}-{chunk}"
    tables = word_tables(TABLE, SELDOM)
    collection = collection_of(postings, tokenizer, tables, bits)
    publish_collection(site / name, collection, chunk=chunk, file_bytes=3000)
    reference = ReferenceSearcher(postings, tokenizer, TABLE, SELDOM)
    calls: list[Any] = [
        ("search", query, {"k": k, "substitute": substitute, "explain": True})
        for query, k, substitute in asked
    ]
    ids = postings.ids[: len(asked)]
    calls += [("similar", image_id, {"k": 5}) for image_id in ids]
    calls += [("similar", postings.ids[:2], {"k": 5, "words": "dog"})] if images > 1 else []
    few = 2**30 if host == "plain" else 0
    given_answers = answers(request.getfixturevalue(host), name, calls, few)
    for (query, k, substitute), answer in zip(asked, given_answers, strict=False):
        result = reference.search(query, k, substitute=substitute)
        assert found(answer) == right(result)
        for hit in answer["hits"][:3]:
            why = reference.explain(query, hit["image_id"], substitute=substitute)
            assert hit["explanation"] == terms_of(why)
    for image_id, answer in zip(ids, given_answers[len(asked) :], strict=False):
        assert hits_of(answer) == right(reference.similar(image_id, 5))["hits"]
    if images > 1:
        near = reference.similar(postings.ids[:2], 5, words="dog")
        assert hits_of(given_answers[-1]) == right(near)["hits"]


def test_without_ranges_each_file_is_fetched_once(
    plain: Page, site: Path, tokenizer: TermTokenizer
) -> None:
    """Though a query asks for parts of the lists that are far from each other, all at once."""
    collection = collection_of(random_postings(tokenizer, 6000, 1), tokenizer)
    publish_collection(site / "once", collection)
    fetched: list[str] = []
    plain.on("request", lambda request: fetched.append(request.url))
    terms = [word for word in EVERY_WORD if word.isalpha()]
    [answer] = answers(plain, "once", [("search", " ".join(terms[::3]), {"k": 5})], 2**30)
    assert len(answer["hits"]) == 5
    files = [url for url in fetched if "/once/" in url]
    assert sorted(files) == sorted(set(files))


# ---- an index against its engine ----------------------------------------------------------------

METADATA: list[dict[str, Any]] = [
    {"taken": "2024-06-01T12:30:00", "rating": 3, "make": "Canon", "model": "EOS 5"},
    {"taken": "2024-07-15", "rating": 4.5, "latitude": 48.1, "longitude": 11.5, "raw": True},
    {"taken": "1969-12-31T23:59:59.5", "tags": ["a-b", "c"], "raw": False},
    {"rating": -1, "make": "Nikon"},
    {"tags": ["a b", "É"]},
    {},
]
FILTERS = r"""
rating:>3 | rating:3..4.5 | rating:1e0.. | -rating:* | taken:2024 | taken:>2024-06 | taken:..1970
taken:2024-06..2024-07-15 | tags:"a b" | tags:=é | tags:a* | camera:eos | raw:true | raw:no|yes
location:48.13,11.57~9km | location:40,0..50,20 | location:91,0~5km | a:1 location:9,-181~1m
location:-91,0..9,9 | location:0,0..90,181 | folder:a OR path:3 | tags:+ | taken:<=2024-06-01
(raw:true OR make:nikon) -rating:4.5 | -(make:canon model:*) | rating:x | dates:1 | taken:soon
raw:maybe | location:3 | rating:a* | a: | (raw:true | tags:" | dog | taken:2024-13 | rating:>
raw:true) | -raw:* | rating:-1..inf
"""
SIGNED = r"""
dog -cat | +dog cat^3 | +"the dogs" beach | -"red ball" sky | dog^100 running^2 | dog^0 | cat +"
-dog | dog^1.5 | \-dog | the^٣ dog | +zebra cat | dog - | rock -n- roll | dog's | -dog^2 the
+"" the | 犬 é ǅ | +dog, the. | "dog cat"^2 | a "dog" the | THE Dog[MASK]s | zebra dog | -zebra the
baech dog | +bal cat | -skyy dog | runnign^2 red | dosg | bald | bold cat | runer | a Beahc!
dgo | show me dog | pictures of: cats. | find | the photo of a dog | (dog); cat… | of a to
show all my photos of dogs | May I see a dog | dog´s cat™ | pics that show cats, we took of
Balll^3 -caat | the the the the the the the the the
"""  # noqa: RUF001


def lines(text: str) -> list[str]:
    return [one for line in text.strip().splitlines() for one in line.split(" | ")]


@pytest.fixture(scope="module")
def engine(
    tokenizer: TermTokenizer, site: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searcher]:
    """Of an index that is published as "engine"."""
    rows = list(random_postings(tokenizer, 300, seed=5))
    rows = [
        replace(image, metadata={**image.metadata, **METADATA[i % len(METADATA)]})
        for i, image in enumerate(rows)
    ]
    folder = tmp_path_factory.mktemp("index") / "index"
    shards = shards_of(Postings.of(rows), 200)
    tables = word_tables(TABLE, SELDOM, ("running", "dogs"), ("runner", "bold"))
    write_postings(folder, shards, tokenizer, tables=tables)
    publish_collection(site / "engine", open_collection(folder), chunk=100, file_bytes=2000)
    searcher = open_index(folder, "columns")
    yield searcher
    searcher.close()


def asked_of(engine: Searcher, query: str, **options: Any) -> Answer:
    try:
        return right(engine.search(query, 25, **options))
    except QueryError as error:
        return {"column": error.column, "error": f"query, column {error.column}: {error.problem}"}


def test_misspelt_words_are_corrected_as_by_the_engine(blank: Page, engine: Searcher) -> None:
    typed = ["baech", "+bal cat", "-skyy dog", "bald", "dosg", "x"]
    for text, answer in zip(
        typed, answers(blank, "engine", [("search", q, {}) for q in typed]), strict=True
    ):
        words = [one["word"] for one in answer["substitutions"] if one["similarity"] is None]
        [near] = answers(blank, "engine", [("corrections", [*words, *answer["unknown"]])])
        assert near == [asdict(one) for one in engine.search(text).corrections], text
    [typed_alone] = answers(blank, "engine", [("search", "baech", {"substitute": False})])
    assert typed_alone["unknown"] == ["baech"] and not typed_alone["substitutions"]


@pytest.mark.parametrize("least", [None, 0.5])
def test_operators_equal_the_engine(blank: Page, engine: Searcher, least: float | None) -> None:
    options = {"k": 25} | ({} if least is None else {"minCoverage": least})
    calls = [("search", query, options) for query in lines(SIGNED)]
    for query, answer in zip(lines(SIGNED), answers(blank, "engine", calls), strict=True):
        expected = asked_of(engine, query, min_coverage=least)
        assert (found(answer) if "hits" in answer else answer) == expected, query
        if least and "hits" in answer:
            covered = [hit.coverage for hit in engine.search(query, 25, min_coverage=least).hits]
            assert [hit["coverage"] for hit in answer["hits"]] == pytest.approx(covered)
            assert all(hit["coverage"] <= 1 for hit in answer["hits"])


def test_an_explanation_says_what_is_against_an_image(blank: Page, engine: Searcher) -> None:
    image_id = engine.search("dog", 1).hits[0].image_id
    [answer] = answers(blank, "engine", [("explain", "-dog +zebra cat", image_id)])
    expected = engine.explain("-dog +zebra cat", image_id)
    assert answer["terms"] == terms_of(expected)
    assert (answer["against"], answer["score"]) == (expected.against, expected.score)
    assert answer["coverage"] == pytest.approx(expected.coverage)


def test_filters_equal_the_engine(blank: Page, engine: Searcher) -> None:
    calls: list[Any] = []
    facets = ["tags", "raw", "rating", "taken:year", "taken:month", "taken:day", "camera"]
    for text in lines(FILTERS):
        calls.append(("search", "dog", {"k": 10, "filter": text}))
        calls.append(("browse", "", {"k": 10, "filter": text, "facets": facets, "sort": "-taken"}))
    given_answers = iter(answers(blank, "engine", calls))
    for text in lines(FILTERS):
        best, page = next(given_answers), next(given_answers)
        try:
            whole = parse_filter(text)
            alone = engine.search("dog", 10, filter=whole)
        except FilterError as error:
            assert best["error"] == page["error"]
            assert str(error).partition("; there is")[0] == best["error"].partition("; there is")[0]
            continue
        assert hits_of(best) == right(alone)["hits"], text
        every = engine.search("", 10, sort="-taken", facets=facets, filter=whole)
        assert [hit["image_id"] for hit in page["hits"]] == [h.image_id for h in every.hits]
        assert page["total"] == every.total
        for name, buckets in (every.facets or {}).items():
            own = [(one["value"], one["count"]) for one in page["facets"][name]]
            assert own == [(one.value, one.count) for one in buckets], (text, name)


@pytest.mark.parametrize("order", [None, "rating", "-rating", "tags", "-tags", "taken", "path"])
def test_orders_equal_the_engine(blank: Page, engine: Searcher, order: str | None) -> None:
    options = {"k": 40, "offset": 7} | ({"sort": order} if order else {})
    pages = answers(blank, "engine", [("browse", "dog -cat", options), ("browse", "", options)])
    for query, page in zip(("dog -cat", ""), pages, strict=True):
        whole = engine.search(query, 40, offset=7, sort=order, facets=("path",))
        ids = [hit["image_id"] for hit in page["hits"]]
        assert (ids, page["total"]) == ([hit.image_id for hit in whole.hits], whole.total)


def test_suggestions_equal_the_engine(blank: Page, engine: Searcher) -> None:
    typed = ["d", "the do", "beech", "zebr", "bal", "+r", "dgo", "x", "dog ", "É", "ruu", "skyy"]
    typed += ["r", "runnin", "dosg", "runnnig"]
    completed = answers(blank, "engine", [("complete", text, 6) for text in typed])
    for text, answer in zip(typed, completed, strict=True):
        wanted = [tuple(one) for one in engine.complete(text, 6)]
        assert [(one["text"], one["word"], one["images"]) for one in answer] == wanted, text


def test_images_by_id(blank: Page, engine: Searcher) -> None:
    ids = [engine.ids()[number] for number in (0, 17, 299)]
    calls: list[Any] = [("image", one) for one in (*ids, "nowhere")]
    *known, first, second = answers(blank, "engine", [*calls, ("similar", "é", {})])
    for image_id, answer in zip(ids, known, strict=True):
        assert (answer["image_id"], answer["metadata"]) == (image_id, engine.metadata(image_id))
    assert first["error"] == "the index has no image nowhere"
    assert second["error"] == "the index has no image é"


# ---- reading queries ----------------------------------------------------------------------------

# Answers with JSON, which the browser writes much faster than Playwright encodes values.
WORDS = """async ([folder, texts]) => {
  const { open } = await import("/search/index.js");
  const { reader, vocabulary } = await open(folder);
  const named = ({ text, pieces }) => [text, pieces.map((id) => vocabulary[id])];
  return JSON.stringify(texts.map((text) => reader.tokenizer.words(text).map(named)));
}"""
CLAUSES = """async (texts) => {
  const { parse } = await import("/search/grammar.js");
  return texts.map((text) => {
    try { return parse(text).map(({ text, sign, weight, word }) => [text, sign, weight, word]); }
    catch (error) { return [error.problem, error.column]; }
  });
}"""


@pytest.fixture(scope="module")
def bert(site: Path) -> tuple[TermTokenizer, str]:
    """The tokenizer of the model for photos, with an empty index."""
    tokenizer = TermTokenizer.from_folder(SHIPPED)
    if not (site / "bert").is_dir():
        publish_collection(site / "bert", collection_of(Postings.of([]), tokenizer))
    return tokenizer, "/bert/index/"


def check_words(
    page: Page | FirefoxPage, bert: tuple[TermTokenizer, str], texts: list[str]
) -> None:
    tokenizer, folder = bert
    found = json.loads(page.evaluate(WORDS, [folder, texts]))
    for text, own in zip(texts, found, strict=True):
        expected = tokenizer.encode_query(text).words
        assert own == [[word.text, list(word.pieces)] for word in expected], text


@pytest.mark.parametrize("host", [on("blank"), on("firefox")])
def test_every_assigned_character_is_read_as_by_the_tokenizer(
    request: pytest.FixtureRequest, host: str, bert: tuple[TermTokenizer, str]
) -> None:
    """Most ideographs and syllables of Hangul, which are all alike, are left out."""
    ends = (0x3400, 0xA000), (0xAC00, 0xD700), (0x17000, 0x18D00), (0x20000, 0x32000)
    alike = {code for first, end in ends for code in range(first, end) if code % 97}
    chars = [chr(code) for code in range(0x110000) if code not in alike]
    chosen = [char for char in chars if unicodedata.category(char) not in ("Cn", "Cs", "Co")]
    words = [f"a{char}b {char}" for char in chosen]
    page = request.getfixturevalue(host)
    check_words(page, bert, [" ".join(words[i : i + 50]) for i in range(0, len(words), 50)])


LETTERS = st.text(
    st.sampled_from("abé ñ.'-[]̧̈́ーが한국日👨‍👩🏽İßﬁΣ\u200d\u302e\u0316\xad\ufeff\t\n#2٣½")
    | st.characters(exclude_categories=["Cs", "Cn", "Co"]),
    max_size=40,
)


SPELLED = st.sampled_from(["[MASK]", "x" * 101, "don't [UNK]s"])


@settings(max_examples=20)
@given(texts=st.lists(LETTERS | SPELLED, max_size=60))
def test_any_text_is_read_as_by_the_tokenizer(
    blank: Page, bert: tuple[TermTokenizer, str], texts: list[str]
) -> None:
    check_words(blank, bert, texts)


SIGNS = st.text(st.sampled_from('ab é+-^"“”\\10.٣½_,!) \n\u3000\x1f'), max_size=14)


@settings(max_examples=40)
@given(texts=st.lists(SIGNS, min_size=30, max_size=60))
def test_the_grammar_is_that_of_the_engines(blank: Page, texts: list[str]) -> None:
    def clauses(text: str) -> list[Any]:
        try:
            return [[one.text, one.sign, one.weight, one.word] for one in parse(text).clauses]
        except QueryError as error:
            return [error.problem, error.column]

    for text, own in zip(texts, blank.evaluate(CLAUSES, texts), strict=True):
        assert own == clauses(text), json.dumps(text)


SCRIPTS = OWN / "search"
# Fetched by the first filter, suggestion or misspelt word, and not before.
LATER = {"fields.js", "filter.js", "pieces.js", "words.js"}
LARGEST = 20 * 1024  # bytes, compressed
OPTIONS = {
    **{"strict": True, "checkJs": True, "allowJs": True, "noEmit": True, "types": []},
    **{"target": "es2024", "module": "es2022", "moduleResolution": "bundler"},
    "lib": ["es2024", "dom", "dom.iterable"],
}
USE = """
import { open } from "./search/index.js";
const index = await open("index/");
const { hits, timings } = await index.search("two dogs on a beach", { k: 20, explain: true });
const first: string | undefined = hits[0]?.explanation?.[0]?.term;
const total: number = (await index.browse("dog", { facets: ["taken:year"] })).total;
export { first, timings, total };
"""


@pytest.mark.needs("Node.js", "packages of npm")
def test_types(tmp_path: Path) -> None:
    """Of the script, and of one that uses it."""
    (tmp_path / "search").symlink_to(SCRIPTS)
    (tmp_path / "use.mts").write_text(USE)
    options = {"compilerOptions": OPTIONS, "files": ["use.mts"], "include": ["search/*.js"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(options))
    command = ["node", str(NODE_MODULES / "typescript" / "bin" / "tsc"), "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stdout


def test_size() -> None:
    scripts = [path.read_bytes() for path in SCRIPTS.glob("*.js") if path.name not in LATER]
    assert len(gzip.compress(b"".join(scripts))) <= LARGEST
