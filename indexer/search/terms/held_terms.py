"""Which terms some image has, over the commits of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indexer.store.changes import Change


class HeldTerms:
    """Whether some image has a term.

    The search for an image with a term names one. As long as that image stays as it is, later
    commits need no other search, so that queries beside writes cost what they cost at rest.

    Args:
        find: the id of an image that has a term, None if no image has it.
    """

    def __init__(self, find: Callable[[str], str | None]) -> None:
        self._find = find
        self._found: dict[str, str | None] = {}

    def __call__(self, term: str) -> bool:
        """Whether some image has a term of the vocabulary."""
        if term not in self._found:
            self._found[term] = self._find(term)
        return self._found[term] is not None

    def after(
        self, changes: Iterable[Change], find: Callable[[str], str | None], terms: list[str]
    ) -> HeldTerms:
        """What is held after some changes; this object stays as it is.

        Args:
            changes: in any order.
            find: among the images after the changes.
            terms: the vocabulary by number.
        """
        from indexer.store.changes import Add, MetadataChange  # which a search does not need

        newer = HeldTerms(find)
        newer._found = self._found.copy()
        changed, added = set(), set[str]()
        for change in changes:
            if not isinstance(change, MetadataChange):
                changed.add(change.image_id)
            if isinstance(change, Add):
                added.update(terms[number] for number in change.image.terms.tolist())
        for term, image_id in self._found.copy().items():
            if image_id in changed or (image_id is None and term in added):
                newer._found[term] = find(term)
        return newer

    def agrees(self, newer: HeldTerms) -> bool:
        """Whether a later commit has every term that was looked up here, and no other of them."""
        found = self._found.copy().items()
        return all(newer(term) == (image_id is not None) for term, image_id in found)
