"""What teachers compare, in tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sparta.features.store import FeatureStore
from sparta.progress import no_progress
from training.teacher.open import TeacherInputs

TEXTS = ["a brown dog", "the red ball", "", "two men by the sea and the sea", "zebra"]


def teacher_inputs(store: FeatureStore, folder: Path, **changes: Any) -> TeacherInputs:
    plain = TeacherInputs(
        image_ids=store.ids,
        sentences=TEXTS,
        stores=[store],
        photos=None,
        folder=folder,
        device=torch.device("cpu"),
        precision=None,
        workers=0,
        progress=no_progress,
    )
    return replace(plain, **changes)
