"""Settings of other libraries, which read them from the environment when they are imported."""

from __future__ import annotations

import os

SETTINGS = {
    # By default torch's threads spin while they wait for each other, which takes the cores from the
    # decoding workers and slows a run down twenty times.
    "OMP_WAIT_POLICY": "PASSIVE",
    # Notes and progress bars of loading weights.
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}


def set_up_libraries() -> None:
    """Prepare torch and silence transformers, unless the user's environment says otherwise."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
