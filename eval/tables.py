"""The papers' tables of ablations: train each row with several seeds, measure, compare.

`tables.yaml` beside this module declares them. A cell is a row under a column. Its runs are folders
of `sparta train`; finished ones are used again, so that an interrupted table continues.

A claim is that one row ranks above another one. Both are compared by the sum of the table's
measures. 10,000 times photos are drawn with replacement, the same for both rows, and seeds, for
each row by itself. The claim holds if 95 % of the differences are above 0 on both sides; it does
not hold if they are below 0; else the difference is within noise.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path
from re import sub
from statistics import fmean, stdev
from typing import Any, ClassVar, NamedTuple
from zlib import crc32

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from rich.console import Group
from rich.table import Table

from eval.recall.model import measure_model_recall, open_members
from eval.recall.photos import SETTINGS, choose, missing_in
from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError
from sparta.features.store import HEADER
from sparta.files import read_yaml
from sparta.json_values import Json
from sparta.progress import Progress, no_progress

TABLES = Path(__file__).parent / "tables.yaml"
DRAWS, AT_ONCE, SEED = 10_000, 500, 0
BATCH = 32  # images encoded at once
WEIGHTS = "model.safetensors"


class Cell(NamedTuple):
    """A row under a column."""

    row: str
    column: str

    def folder(self, seed: int) -> str:
        """The name of a run's folder."""
        name = sub(r"[^a-z0-9]+", "-", f"{self.column} {self.row}".lower()).strip("-")
        return f"{name}-s{seed}"


@dataclass(frozen=True)
class Ablation:
    """A table as `tables.yaml` declares it."""

    title: str
    published: str  # the data set of the published figures
    measures: Sequence[str]  # "t2i R@1": text → image; "i2t R@5": image → text
    columns: Mapping[str, Mapping[str, Any]]
    rows: Mapping[str, Mapping[str, Any]]
    claims: Sequence[tuple[str, str]]

    @classmethod
    def open(cls, name: str) -> Ablation:
        """Read a table; raises InputError if there is none of that name."""
        tables = read_yaml(TABLES)
        if name not in tables:
            raise InputError(f"{name!r} is no table: choose one of {', '.join(tables)}")
        return cls(**tables[name])

    def preset(self, cell: Cell) -> str:
        """The preset that a cell's settings change."""
        own = self.rows[cell.row].get("preset", {})
        return str(own.get(cell.column, self.columns[cell.column]["preset"]))

    def settings(self, cell: Cell, features: Path) -> Json:
        """What a cell changes: dotted keys and values."""
        row, settings = self.rows[cell.row], dict[str, Any]()
        if (features / HEADER).is_file():
            settings |= {"data.features": [str(features)]}
            settings |= self.columns[cell.column].get("stored", {})
        else:
            settings |= {"data.photos": str(features)}
        settings |= row.get("set", {})
        settings |= row.get(cell.column, {})
        return settings


class Data(NamedTuple):
    """What a table is trained and measured on."""

    features: Mapping[str, Path]  # of each column: a store, or photos that its model reads
    captions: Path
    split: str  # that is measured
    protocol: str


@dataclass(frozen=True)
class Ranks:
    """Ranks of one run, by photo.

    Attributes:
        captions: [photos] int64, how many captions each has.
        t2i: [captions] int64, text → image, those of a photo one after another.
        i2t: [photos] int64, image → text.
        parameters: of the model.
        model: its fingerprint.
    """

    captions: NDArray[np.int64]
    t2i: NDArray[np.int64]
    i2t: NDArray[np.int64]
    parameters: int
    model: str  # its fingerprint

    def hits(self, measure: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Hits and queries of each photo, [photos] each, whose sums divide to a recall."""
        way, _, cutoff = measure.partition(" R@")
        found = (getattr(self, way) <= int(cutoff)).astype(np.float64)
        if way == "i2t":
            return found, np.ones_like(found)
        ends = [0, *accumulate(self.captions.tolist())]
        return np.add.reduceat(found, ends[:-1]), self.captions.astype(np.float64)


@dataclass(frozen=True)
class Claim:
    """What became of a claim: differences are of the sums of measures, in percent."""

    above: str
    below: str
    column: str
    difference: float
    interval: tuple[float, float]  # 95 %

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.interval[0] > 0:
            return "holds"
        return "does not hold" if self.interval[1] < 0 else "within noise"


@dataclass(frozen=True)
class AblationResult:
    """The figures of a table's cells, and what they say of the paper's claims."""

    name: str
    ablation: Ablation
    found: Mapping[Cell, Sequence[Ranks]]  # one for each seed

    seed: ClassVar[int] = SEED  # of the draws

    @property
    def models(self) -> list[str]:
        """Fingerprints of the models of all runs."""
        return [ranks.model for found in self.found.values() for ranks in found]

    def figures(self, cell: Cell) -> list[tuple[float, float]]:
        """Mean and standard deviation over the seeds of each measure, in percent."""
        found = []
        for measure in self.ablation.measures:
            sums = [[side.sum() for side in ranks.hits(measure)] for ranks in self.found[cell]]
            shares = [100 * hits / queries for hits, queries in sums]
            found.append((fmean(shares), stdev(shares) if len(shares) > 1 else 0.0))
        return found

    def claims(self) -> Iterator[Claim]:
        """The claims both of whose rows were trained."""
        for column in self.ablation.columns:
            for rows in self.ablation.claims:
                above, below = (Cell(row, column) for row in rows)
                if above in self.found and below in self.found:
                    sums = [sum(mean for mean, _ in self.figures(one)) for one in (above, below)]
                    drawn = self._draw(above) - self._draw(below)
                    low, high = np.percentile(drawn, [2.5, 97.5]).tolist()
                    yield Claim(*rows, column, sums[0] - sums[1], (low, high))

    def _draw(self, cell: Cell) -> NDArray[np.float64]:
        """The sum of the measures for photos and seeds drawn with replacement, [DRAWS]."""
        runs, measures = self.found[cell], self.ablation.measures
        photos, seeds = (
            np.random.default_rng(SEED),
            np.random.default_rng([SEED, crc32(repr(cell).encode())]),
        )
        hits = np.stack([np.stack([run.hits(one)[0] for one in measures], 1) for run in runs])
        queries = np.stack([runs[0].hits(one)[1] for one in measures], 1)
        count, drawn = len(queries), []
        for _ in range(DRAWS // AT_ONCE):
            times = photos.multinomial(count, np.full(count, 1 / count), AT_ONCE).astype(float)
            shares = (times @ hits / (times @ queries)).sum(2)  # [seeds, AT_ONCE]
            chosen = seeds.integers(len(runs), size=(len(runs), AT_ONCE))
            drawn.append(100 * np.take_along_axis(shares, chosen, 0).mean(0))
        return np.concatenate(drawn)

    def record(self) -> Json:
        """The figures for programs."""
        rows = [
            {
                **cell._asdict(),
                "seeds": len(found),
                "parameters": found[0].parameters,
                "measured": dict(zip(self.ablation.measures, self.figures(cell), strict=True)),
                "published": self._published(cell),
            }
            for cell, found in self.found.items()
        ]
        claims = [vars(one) | {"verdict": one.verdict} for one in self.claims()]
        return {"table": self.name, "title": self.ablation.title, "rows": rows, "claims": claims}

    def _published(self, cell: Cell) -> list[float]:
        return list(self.ablation.rows[cell.row].get("published", {}).get(cell.column, []))

    def table(self) -> Group:
        """The rows, published figures beside them, and the claims."""
        rows = Table(title=self.ablation.title, title_justify="left")
        for name in ("row", "features", "parameters", "seeds", *self.ablation.measures):
            rows.add_column(name)
        rows.add_column(f"published ({self.ablation.published})")
        for cell, found in self.found.items():
            size = f"{found[0].parameters / 1e6:.1f} M"
            figures = (f"{mean:.1f} ± {spread:.1f}" for mean, spread in self.figures(cell))
            published = " / ".join(map(str, self._published(cell))) or "-"
            rows.add_row(*cell, size, str(len(found)), *figures, published)
        claims = Table(title="Claims of the paper", title_justify="left")
        for name in ("claim", "features", "verdict", "difference", "95 %"):
            claims.add_column(name)
        for one in self.claims():
            low, high = one.interval
            values = f"{one.difference:+.1f}", f"{low:+.1f} to {high:+.1f}"
            claims.add_row(f"{one.above} > {one.below}", one.column, one.verdict, *values)
        return Group(rows, "", claims)


def measure_table(
    name: str,
    data: Data,
    out: Path,
    presets: Sequence[str],
    settings: Sequence[str],
    seeds: int,
    rows: Sequence[str] = (),
    progress: Progress = no_progress,
) -> AblationResult:
    """Train and measure the cells of a table for whose columns there are features.

    Args:
        name: of the table.
        data: to train and measure on.
        out: folder with a folder for each run.
        presets: that adapt the papers' presets to the data, before a row's own settings.
        settings: KEY=VALUE, after a row's own settings, for `sparta train`.
        seeds: runs of each cell; their seeds are 0, 1 and so on.
        rows: names of rows, if not all.
        progress: of the stage "train", in runs.

    Raises:
        InputError: if the table, a column or a row is unknown, photos are missing, or a run fails.
    """
    ablation = Ablation.open(name)
    if unknown := data.features.keys() - ablation.columns.keys():
        columns = ", ".join(f"--features {one}=FOLDER" for one in ablation.columns)
        raise InputError(f"--features {min(unknown)}=…: {name} has {columns}")
    if unknown := set(rows) - ablation.rows.keys():
        raise InputError(
            f"--row {min(unknown)!r}: {name} has {', '.join(map(repr, ablation.rows))}"
        )
    folds = choose(data.protocol, read_captions(data.captions, data.split))
    cells = [Cell(*one) for one in product(rows or ablation.rows, data.features)]
    found: dict[Cell, list[Ranks]] = {cell: [] for cell in cells}
    for number, (seed, cell) in enumerate(product(range(seeds), cells)):
        progress("train", number, seeds * len(cells))
        run, features = out / cell.folder(seed), data.features[cell.column]
        own = {"data.captions": str(data.captions)} | ablation.settings(cell, features)
        options = [f"{key}={json.dumps(value)}" for key, value in own.items()]
        _train(run, [ablation.preset(cell), *presets], [*options, *settings, f"seed={seed}"])
        found[cell].append(_measure(run, features, data.protocol, folds))
    progress("train", seeds * len(cells), seeds * len(cells))
    return AblationResult(name, ablation, found)


def _train(run: Path, presets: Sequence[str], settings: Sequence[str]) -> None:
    """Train a run, or go on with it; its log is beside it."""
    run.parent.mkdir(parents=True, exist_ok=True)
    preset = run.with_name(f"{run.name}.yaml")
    preset.write_text(yaml.safe_dump({"extends": [*presets]}), encoding="utf-8")
    command = [sys.executable, "-m", "sparta", "train", str(preset), "--out", str(run)]
    command += [word for one in settings for word in ("--set", one)]
    command += ["--resume"] * (run / SETTINGS).is_file()
    log = run.with_name(f"{run.name}.log")
    with log.open("ab") as file:
        code = subprocess.run(command, stdout=file, stderr=file, check=False).returncode
    if code:
        last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise InputError(f"{run} was not trained: {last} (all of it: {log})")


def _measure(
    run: Path, features: Path, protocol: str, folds: Sequence[Sequence[CaptionedPhoto]]
) -> Ranks:
    """Ranks of a run; saved beside it, and read from there as long as nothing has changed."""
    texts = [(photo.image_id, *photo.captions) for fold in folds for photo in fold]
    state = [(run / "model" / WEIGHTS).stat().st_mtime_ns, str(features), protocol, texts]
    key, saved = f"{crc32(repr(state).encode()):08x}", run.with_name(f"{run.name}.npz")
    if saved.is_file():
        with np.load(saved) as found:
            if found["key"] == key:
                ways = found["captions"], found["t2i"], found["i2t"]
                return Ranks(*ways, int(found["parameters"]), str(found["model"]))
    [member] = open_members([str(run / "model")], [features], False, "auto")
    missing_in([member.store], [image_id for image_id, *_ in texts], None)
    measured = measure_model_recall([member], protocol, folds, BATCH).found
    t2i, i2t = (torch.cat(way).numpy() for way in zip(*measured.ranks, strict=True))
    captions = np.array([len(captions) for _, *captions in texts])
    parameters = sum(one.numel() for one in member.model.model.parameters())
    ranks = Ranks(captions, t2i, i2t, parameters, member.fingerprint)
    np.savez(saved, key=key, **vars(ranks))
    return ranks
