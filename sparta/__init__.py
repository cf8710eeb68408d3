"""VisualSparta: text-to-image search on an inverted index.

The public Python API; whatever else the modules below contain may change:

    index = sparta.open_index("index")                        # loads neither torch nor a model
    hits = index.search("two dogs on a beach", k=10)

    model = sparta.VisualSparta.from_pretrained("photos")     # or a folder, or a hub name
    terms = sparta.encode_photos("photos", model)             # photo → term → score

    client = sparta.Client("http://127.0.0.1:8000")           # or AsyncClient; see docs/clients.md
    hits = client.search("two dogs on a beach", k=10).hits    # raises ClientError

A name is imported when it is first used, so that a search never waits for torch, and a client
loads no index; its type is in `__init__.pyi`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["AsyncClient", "Client", "ClientError", "VisualSparta", "encode_photos", "open_index"]

_MODULES = {
    "AsyncClient": "server.client.client",
    "Client": "server.client.client",
    "ClientError": "server.client.transport",
    "VisualSparta": "sparta.visualsparta.model",
    "encode_photos": "sparta.visualsparta.encode_photos",
    "open_index": "indexer.engines.open",
}


def __getattr__(name: str) -> Any:
    """Import a public name (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
