"""The end of a soak, for which everything that repeats waits."""

from __future__ import annotations

import asyncio


class Over(asyncio.Event):
    """Set when the soak is over."""

    async def within(self, seconds: float) -> bool:
        """Wait that long at most; whether the soak is over."""
        try:
            await asyncio.wait_for(self.wait(), seconds)
        except TimeoutError:
            return False
        return True
