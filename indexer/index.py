"""The Python API: an index folder that is built, opened, searched and written to."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Self

from indexer.answer import Answer, Explanation
from indexer.engines.open import open_backend, open_index
from indexer.manifest import LUCENE, Manifest
from indexer.search.explanations import Explain
from indexer.store.commit import read_commit
from sparta.json_values import Json, JsonMapping
from sparta.progress import Progress, no_progress

if TYPE_CHECKING:
    from pyserini.search.lucene import LuceneImpactSearcher

    from indexer.filters.expression import Filter
    from indexer.search.searcher import Searcher
    from indexer.search.words import Completion
    from indexer.settings import PruningSettings
    from indexer.update.images import AddReport, UpdateReport

Place = str | Path
PICTURE = 160  # pixels of the longer side of a thumbnail in a notebook


def open(folder: Place, *, model: Place | Sequence[Place] = (), engine: str = "columns") -> Index:
    """Open an index folder, which may be divided into shards.

    Args:
        folder: the index folder.
        model: of the index, by folder or name, for `add`, if it is no longer where it was.
        engine: of the inverted index: "columns" or "lucene".

    Raises:
        InputError: if the folder is not an index, or is damaged.
    """
    return Index(Path(folder), _places(model), engine)


def build(
    source: Place | Sequence[Place],
    folder: Place,
    *,
    model: Place | Sequence[Place] = "photos",
    metadata: Mapping[str, JsonMapping] | None = None,
    pruning: PruningSettings | None = None,
    keep_features: bool = False,
    device: str = "auto",
    shards: int | None = None,
    rerank: int = 0,
    progress: Progress = no_progress,
) -> Index:
    """Build an index of photos, or of their features, and open it, as `sparta index` does.

    An interrupted build continues when it is repeated. A former index at `folder` answers until
    the new one is complete.

    Args:
        source: folder of photos, or feature stores of the same photos, the plain one first.
        folder: for the index.
        model: VisualSparta model, by folder or name; several are averaged.
        metadata: image id → fields, returned with every hit and searched by filters.
        pruning: how term scores become impacts.
        keep_features: keep photos' features, 170 KB each, beside the index for later builds.
        device: "auto" takes a GPU if there is one.
        shards: how many the index is divided into.
        rerank: hits that searches may re-rank by the photos' vectors, which are kept; 0 for none.
        progress: called with stage, done, total.

    Raises:
        InputError: if photos, features or models do not go together, or the disk is full.
    """
    from sparta.extras import set_up_libraries

    set_up_libraries()
    from indexer.build import DEFAULT_PRUNING, build_index, check_out
    from indexer.encoding.features import open_images

    models, out = _places(model), Path(folder)
    check_out(out)
    paths = [Path(place) for place in _places(source)]
    images = open_images(
        paths, models, out, keep_features=keep_features, device=device, progress=progress
    )
    build_index(
        images,
        models,
        out,
        pruning or DEFAULT_PRUNING,
        metadata=metadata,
        device=device,
        shards=shards,
        rerank=rerank,
        progress=progress,
    )
    return Index(out, models)


class Index:
    """An index folder, open for searching and writing; safe from any thread.

    Searches see the newest commit of this object's own writes; `refresh` takes up those of other
    processes.

    Attributes:
        folder: of the index.
    """

    def __init__(self, folder: Path, models: Sequence[str] = (), engine: str = "columns") -> None:
        self.folder = folder
        self._models, self._engine = [*models], engine
        self._searchers = {"sparta": open_index(folder, engine)}
        self._photos = Manifest.of(folder).photos
        self._writing = Lock()

    def search(
        self,
        query: str = "",
        k: int = 10,
        *,
        filter: str | JsonMapping | None = None,
        sort: str | None = None,
        facets: Sequence[str] = (),
        offset: int = 0,
        min_coverage: float | None = None,
        explain: bool = False,
        substitute: bool = True,
        rerank: int = 0,
        backend: str | None = None,
    ) -> Answer:
        """Find the k best images for a text; without a text, images that match the filter.

        Args:
            query: any text, with `+beach`, `-dog` and `beach^3` where a sentence is not enough.
            k: maximum number of hits.
            filter: conditions on metadata, as text or as JSON.
            sort: field to order all matching images by; "-" before it: largest first.
            facets: fields whose values are counted over all matching images.
            offset: hits to leave out before the first one.
            min_coverage: share, 0 to 1, of the query's weight that a hit must have.
            explain: whether each hit has its score term by term, with its grounding.
            substitute: whether words that the index lacks are replaced by trained terms.
            rerank: first hits to order by the similarity of text and photo, where the index has
                photos' vectors.
            backend: name of a dense model of the index, to search with its embeddings.

        Raises:
            InputError: if the query, filter, sort or facets cannot be read or answered.
        """
        answer = self._searcher(backend).search(
            query,
            k,
            filter=_filter(filter),
            sort=sort,
            facets=facets,
            offset=offset,
            min_coverage=min_coverage,
            explain=Explain() if explain else None,
            substitute=substitute,
            rerank=rerank,
        )
        return self._shown(answer)

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str = "",
        filter: str | JsonMapping | None = None,
        explain: bool = False,
        backend: str | None = None,
    ) -> Answer:
        """Find the k images most similar to an indexed one, or to several, without these.

        Args:
            image_id: of the indexed image, or of several.
            k: maximum number of hits.
            words: a query that the images should match too; it may only exclude.
            filter: conditions on metadata, as text or as JSON.
            explain: whether each hit has its score term by term, with its grounding.
            backend: name of a dense model of the index, to compare its embeddings.

        Raises:
            KeyError: if the index has no such image.
            InputError: as `search`.
        """
        how = Explain() if explain else None
        found = self._searcher(backend).similar(
            image_id, k, words=words, filter=_filter(filter), explain=how
        )
        return self._shown(found)

    def explain(self, image_id: str, query: str, *, substitute: bool = True) -> Explanation:
        """Explain an image's score for a text, term by term, whether or not a search finds it.

        Raises:
            KeyError: if the index has no such image.
            InputError: if the query cannot be read.
        """
        return self._searcher().explain(query, image_id, substitute=substitute)

    def terms(self, query: str, *, substitute: bool = True) -> dict[str, int]:
        """The terms whose impacts `search` adds up, and how often each counts.

        An engine that has the impacts of this index, such as Pyserini's, gives the hits of `search`
        for these counts.

        Raises:
            InputError: if the query cannot be read, or has a sign, which counts cannot express.
        """
        return self._searcher().terms(query, substitute=substitute)

    def pyserini(self, folder: Place | None = None) -> LuceneImpactSearcher:
        """Pyserini's own searcher, which finds the hits of `search` for the counts of `terms`.

        It lowers tied scores by a millionth each.

        Args:
            folder: of `sparta export lucene`; by default the one in the index.

        Raises:
            InputError: if the extra `lucene` is not installed, or the index has no Lucene folder of
                its newest commit.
        """
        from indexer.engines.lucene import open_lucene, open_pyserini

        if folder is None:
            open_lucene(self.folder, read_commit(self.folder)).close()
        return open_pyserini(self.folder / LUCENE if folder is None else Path(folder), self.terms)

    def suggest(self, query: str, k: int = 10) -> list[Completion]:
        """Queries whose last word is completed to words of the index, the most frequent first."""
        return self._searcher().complete(query, k)

    def count(self, filter: str | JsonMapping | None = None) -> int:
        """How many images match a filter; all without one."""
        return self._searcher().count(_filter(filter))

    def fields(self) -> dict[str, str]:
        """Kind of every field of the metadata: keyword, number, date, boolean or geo."""
        return dict(self._searcher().kinds())

    def metadata(self, image_id: str) -> Json:
        """Stored metadata of an image.

        Raises:
            KeyError: if the index has no such image.
        """
        return self._searcher().metadata(image_id)

    def add(
        self,
        photos: Place | Sequence[Place],
        *,
        metadata: Mapping[str, JsonMapping] | None = None,
        device: str = "auto",
        progress: Progress = no_progress,
    ) -> AddReport:
        """Add photos or folders of photos, or replace those that have their ids.

        Photos in the indexed folder have ids relative to it, others relative to the given folder.

        Args:
            photos: photos, or folders of photos.
            metadata: image id → fields.
            device: "auto" takes a GPU if there is one.
            progress: called with stage, done, total.

        Raises:
            InputError: if no photo can be used, the model is another than the index's, or another
                process writes the index.
        """
        from sparta.extras import set_up_libraries

        set_up_libraries()
        from indexer.encoding.features import opened_stores
        from indexer.update.images import add_images, models_of
        from indexer.update.sync_plan import choice_of
        from sparta.extract.photos import DEFAULT

        paths = [Path(place) for place in _places(photos)]
        noted = partial(choice_of, self.folder, given=DEFAULT)
        models = models_of(self.folder, self._models)
        with (
            self._writing,
            opened_stores(self.folder, paths, [], models, device, progress, choice_of=noted) as (
                stores,
                _,
            ),
        ):
            report = add_images(
                self.folder,
                stores,
                models,
                metadata=metadata,
                note=True,
                device=device,
                progress=progress,
            )
        self.refresh()
        return report

    def update(self, metadata: Mapping[str, JsonMapping]) -> UpdateReport:
        """Change fields of images; other fields stay, None removes a field.

        Raises:
            InputError: if a value cannot be stored, or another process writes the index.
        """
        from indexer.update.images import update_metadata

        with self._writing:
            report = update_metadata(self.folder, metadata)
        self.refresh()
        return report

    def delete(self, image_ids: str | Sequence[str]) -> int:
        """Delete images, or none if one is unknown, and return how many are left.

        Raises:
            InputError: if the index lacks an image, or another process writes it.
        """
        from indexer.update.images import delete_images

        with self._writing:
            left = delete_images(self.folder, _places(image_ids))
        self.refresh()
        return left

    def refresh(self) -> None:
        """Let searches see what other processes committed or replaced since."""
        for name, searcher in [*self._searchers.items()]:
            if name != "sparta":
                self._searchers.pop(name, None)  # opened again by the next search
            elif (newer := searcher.refreshed()) is not None:
                self._searchers[name] = newer
                self._photos = Manifest.of(self.folder).photos

    def close(self) -> None:
        """Close the files."""
        for searcher in self._searchers.values():
            searcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Number of images."""
        return len(self._searcher())

    def __contains__(self, image_id: str) -> bool:
        try:
            self.metadata(image_id)
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        """The ids of all images, rising."""
        return iter(self._searcher().ids())

    def __repr__(self) -> str:
        return f"<Index {str(self.folder)!r}: {len(self):,} images>"

    def _searcher(self, backend: str | None = None) -> Searcher:
        name = backend or "sparta"
        if name not in self._searchers:
            self._searchers[name] = open_backend(self.folder, name, self._engine)
        return self._searchers[name]

    def _shown(self, answer: Answer) -> Answer:
        """The answer, which knows where its photos are."""
        if self._photos is not None:
            answer.picture = partial(_picture, Path(self._photos))
        return answer


def _places(given: Place | Sequence[Place]) -> list[str]:
    return [str(given)] if isinstance(given, str | Path) else [*map(str, given)]


def _filter(given: str | JsonMapping | None) -> Filter | None:
    if given is None:
        return None
    from indexer.filters.syntax import parse_filter, read_filter

    return parse_filter(given) if isinstance(given, str) else read_filter(given)


def _picture(photos: Path, image_id: str) -> str | None:
    """A thumbnail of a photo as a data URL; None if it cannot be shown."""
    from sparta.extract.image_files import small_picture

    try:
        content = BytesIO()
        small_picture(photos / image_id, PICTURE).save(content, "JPEG")
    except Exception:  # Pillow raises anything on damaged files
        return None
    return f"data:image/jpeg;base64,{b64encode(content.getvalue()).decode()}"
