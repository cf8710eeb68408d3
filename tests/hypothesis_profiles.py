"""How hypothesis draws examples: the same ones on every run, or new ones for `make fuzz`.

A test states at most how many examples it needs: `@settings(max_examples=...)`.
"""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

# Inputs that failed under `make fuzz`; its next run tries them first.
FOUND = Path(__file__).parent / "examples"

# The fixtures that a property test takes are read, never changed.
SHARED_FIXTURES = [HealthCheck.function_scoped_fixture]

settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=SHARED_FIXTURES
)
settings.register_profile(
    "fuzz",
    derandomize=False,
    deadline=None,
    suppress_health_check=SHARED_FIXTURES,
    database=DirectoryBasedExampleDatabase(FOUND),
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
