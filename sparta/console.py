"""The console of all commands."""

from __future__ import annotations

from typing import Any

import rich.console


class Console(rich.console.Console):
    """A console that prints every text as it is.

    Rich would read square brackets as styles and words between colons as emoji, and drop or
    replace them: in names of files, in queries and in messages.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)
