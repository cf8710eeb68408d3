"""Progress of the parts of a job, reported as progress of the whole."""

from __future__ import annotations

from sparta.progress import Progress


def part_of(number: int, parts: int, progress: Progress) -> Progress:
    """Report one of several equal parts; the first has number 0."""
    return lambda stage, done, total: progress(stage, number * total + done, parts * total)


def after(done_before: int, total: int, progress: Progress) -> Progress:
    """Report a part that follows `done_before` of `total` units."""
    return lambda stage, done, _: progress(stage, done_before + done, total)
