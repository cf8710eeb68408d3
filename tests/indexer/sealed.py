"""Manifests changed as another program would, with the right hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path


def change(folder: Path, **values: object) -> None:
    """Change fields of `folder/manifest.json`."""
    path = folder / "manifest.json"
    changed = json.loads(path.read_text()) | values
    changed.pop("sha256")
    text = json.dumps(changed, sort_keys=True)
    changed["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(changed))
