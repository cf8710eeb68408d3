"""What won a term of an image: slow, obvious, exact."""

from collections.abc import Sequence

from indexer.answer import WinningLabel
from indexer.grounding import UNKNOWN, Grounding, Winner


def winner(grounding: Grounding, term: int, vocabulary: Sequence[str]) -> Winner:
    """What won one term, by its vocabulary id."""
    inputs, terms = grounding.inputs, grounding.terms.tolist()
    position = int(grounding.positions[terms.index(term)]) if term in terms else -1
    if position < 0:
        return UNKNOWN
    token = position - len(inputs.boxes)
    region = position if token < 0 else int(inputs.label_regions[token])
    x1, y1, x2, y2 = inputs.boxes[region].tolist()
    if token < 0:
        return region, (x1, y1, x2, y2), None
    spoken = inputs.label_terms[inputs.label_regions == region]
    words = " ".join(vocabulary[i] for i in spoken).replace(" ##", "")
    label = WinningLabel(vocabulary[inputs.label_terms[token]], words)
    return region, (x1, y1, x2, y2), label
