"""The trials there are: a patch of the kernel each, or another layout of columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eval.bench.query_latency.collections.made_columns import SHIPPED, Layout
from indexer.columns.layout import BITMAP_SHARE, LEVEL_SHARE
from sparta.errors import InputError

PATCHES = Path(__file__).parent / "patches"
ALL = "all"


@dataclass(frozen=True)
class Trial:
    """A change to be timed beside what ships.

    Attributes:
        name: in results.
        about: what is tried, in a sentence.
        patch: unified diff of the kernel's sources; None leaves them as they are.
        layout: of the columns that it searches.
    """

    name: str
    about: str
    patch: Path | None = None
    layout: Layout = SHIPPED


# The first one shows how far ratios of equal things are from 1.
WITHOUT_PATCH = (
    Trial("unchanged", "The kernel as it ships, compiled as trials are."),
    Trial(
        "no-bitmaps",
        "Terms of less than a sixth of the images are lists.",
        layout=Layout(bitmap_share=LEVEL_SHARE),
    ),
    Trial(
        "bitmaps",
        "A row has a bitmap from 1/16 of the images on, whatever the postings.",
        layout=Layout(bitmap_share=BITMAP_SHARE),
    ),
    Trial(
        "bitmaps-12",
        "A row has a bitmap from 1/12 of the images on.",
        layout=Layout(bitmap_share=1 / 12),
    ),
    Trial(
        "bitmaps-32",
        "A row has a bitmap from 1/32 of the images on.",
        layout=Layout(bitmap_share=1 / 32),
    ),
    Trial("levels-4", "A row has levels from a quarter of the images on.", layout=Layout(1 / 4)),
    Trial(
        "levels-16",
        "A row has levels from 1/16 of the images on, and none a bitmap.",
        layout=Layout(BITMAP_SHARE, BITMAP_SHARE),
    ),
    Trial("order-16", "Images are ordered in 16 dimensions.", layout=Layout(order="16")),
    Trial("order-128", "Images are ordered in 128 dimensions.", layout=Layout(order="128")),
    Trial(
        "bisected",
        "Images are ordered by recursive graph bisection.",
        layout=Layout(order="bisected"),
    ),
)


def all_trials() -> list[Trial]:
    """Those without a patch, and one for each file of the folder of patches."""
    patched = [
        Trial(path.stem, path.read_text(encoding="utf-8").partition("\n")[0], path)
        for path in sorted(PATCHES.glob("*.patch"))
    ]
    return [*WITHOUT_PATCH, *patched]


def pick_trials(names: str) -> list[Trial]:
    """Trials by their names, with commas, or all of them.

    Raises:
        InputError: if there is none of a name.
    """
    known = {trial.name: trial for trial in all_trials()}
    wanted = list(known) if names.strip() == ALL else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise InputError(f"--trials takes {ALL} or {', '.join(known)}, not {name!r}")
    return [known[name] for name in dict.fromkeys(wanted)]
