"""VisualSparta: text-to-image search on an inverted index.

    import sparta

    index = sparta.build("photos/", "index")          # or sparta.open("index")
    for hit in index.search("two dogs on a beach", k=5, filter="taken:2024"):
        print(hit.score, hit.id, hit.metadata)
    index.close()

- `build`, `open`: an `Index`, which searches and writes without a server.
- `Client`, `AsyncClient`: a server's index, by the same calls; they raise `ClientError`.
- `VisualSparta`, `encode_images`, `encode_queries`: the model, what it makes of photos and texts.
- `InputError`: what is wrong with what was given, and what to do.

A name is imported when it is first used, so that a search never waits for torch, and a client
loads no index; its type is in `__init__.pyi`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "AsyncClient": "server.client.client",
    "Client": "server.client.client",
    "ClientError": "server.client.transport",
    "Index": "indexer.index",
    "InputError": "sparta.errors",
    "VisualSparta": "sparta.visualsparta.model",
    "build": "indexer.index",
    "encode_images": "sparta.visualsparta.encode_photos",
    "encode_queries": "sparta.visualsparta.encode_photos",
    "open": "indexer.index",
}
__all__ = [*_MODULES]  # names that are imported when they are used


def __getattr__(name: str) -> Any:
    """Import a public name (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        from sparta.extras import missing_extra

        raise missing_extra(error) or error from None


def __dir__() -> list[str]:
    return [*globals(), *__all__]
