"""A run's folder: its settings, its held-out photos, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import yaml
from lightning.fabric.utilities.rank_zero import rank_zero_only

from sparta.captions.read import CaptionedPhoto
from sparta.captions.record import validate
from sparta.console import Console
from sparta.errors import InputError
from sparta.files import read_yaml
from sparta.json_values import JsonValue
from training.run_config import Section

SETTINGS, HELD_OUT, RESULT = "config.yaml", "held-out.jsonl", "result.json"
# Settings that a resumed run may change: how long it trains, and where.
CHANGEABLE = {"epochs", "patience", "checkpoint_epochs", "accelerator", "devices", "workers"}
Config = TypeVar("Config", bound=Section)


@dataclass(frozen=True)
class TrainResult:
    """What came of a run."""

    model: Path  # its folder, or the file of a tuned backbone
    recall: dict[str, float]  # on the held-out photos in percent, if there are any
    epochs: int  # trained
    planned: int  # epochs that the settings ask for; more than trained after an early stop

    @rank_zero_only
    def save(self, out: Path) -> None:
        """Write `out/result.json`, by which the run is finished."""
        values = asdict(self) | {"model": self.model.name}
        (out / RESULT).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, out: Path) -> TrainResult | None:
        """What `out/result.json` says, None if the run is not finished."""
        if not (out / RESULT).is_file():
            return None
        values = json.loads((out / RESULT).read_text(encoding="utf-8"))
        return cls(**values | {"model": out / values["model"]})


@rank_zero_only
def say(text: str) -> None:
    """Print a line, in one of the processes of a run."""
    Console().print(text, soft_wrap=True, highlight=False)


def say_recall(epoch: int, epochs: int, recall: Sequence[float]) -> None:
    """Print R@1, R@5 and R@10 on the held-out photos after an epoch."""
    found = " / ".join(f"{share:.1f}" for share in recall)
    say(f"Epoch {epoch} of {epochs}: {found} (R@1 / R@5 / R@10 of the held-out captions)")


def resumed_settings(config: Config, out: Path) -> tuple[Config, set[str]]:
    """The settings with which to resume a run: its own, but for those that may change.

    Returns them and the keys that differ, which are printed. A model that is named without a
    revision is that of the run's commit.
    """
    used = out / SETTINGS
    if not used.is_file():
        raise InputError(f"{out} holds no run to resume: {used} is missing")
    own = validate(type(config), read_yaml(used), f"{used} is of another kind of run")
    before, now = (dict(_flat(one.model_dump(mode="json"))) for one in (own, config))
    changed = {
        key: f"{key}: {before.get(key)} → {now.get(key)}"
        for key in before | now
        if before.get(key) != now.get(key)
        and str(before.get(key)).partition("@")[0] != str(now.get(key))
    }
    if changed.keys() - CHANGEABLE:
        refused = "; ".join(text for key, text in changed.items() if key not in CHANGEABLE)
        raise InputError(
            f"{used} differs from these settings ({refused}): resume a run with its own settings, "
            "or train in another --out"
        )
    for text in changed.values():
        say(text)
    return own.model_copy(update={key: getattr(config, key) for key in changed}), {*changed}


def _flat(value: JsonValue, key: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Dotted keys and their values."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in pairs:
            yield from _flat(inner, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


@rank_zero_only
def save_settings(config: Section, out: Path) -> None:
    """Write `out/config.yaml`."""
    text = yaml.safe_dump(config.model_dump(mode="json"))
    (out / SETTINGS).write_text(text, encoding="utf-8")


@rank_zero_only
def save_held_out(photos: Sequence[CaptionedPhoto], total: int, out: Path) -> None:
    """List the held-out photos in `out/held-out.jsonl`, captions of split "val", and say so."""
    lines = [
        {"image": photo.image_id, "split": "val", "captions": photo.captions} for photo in photos
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (out / HELD_OUT).write_text(text, encoding="utf-8")
    if photos:
        say(
            f"{len(photos):,} of {total:,} photos are held out for validation "
            f"(listed in {out / HELD_OUT})"
        )
