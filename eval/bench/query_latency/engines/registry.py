"""The engines by name; each is imported on demand."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from eval.bench.query_latency.engines.base import Engine
from sparta.errors import InputError

SPARSE = {
    "lucene": "lucene_engine:LuceneEngine",
    "columns": "columns_engine:ColumnsEngine",
    "bm25s": "bm25s_engine:Bm25sEngine",
}
DENSE = {
    "numpy": "numpy_engine:NumpyEngine",
    "faiss-flat": "faiss_engine:FaissFlat",
    "faiss-hnsw": "faiss_engine:FaissHnsw",
}
VIEWS = {"mv-flat": "faiss_engine:FaissFlatViews"}  # for images of several vectors
ENGINES = SPARSE | DENSE | VIEWS
OURS = ("eval", "indexer", "sparta")


def find(names: list[str]) -> tuple[dict[str, type[Engine[Any]]], dict[str, str]]:
    """Import engines.

    Returns:
        those whose library is installed, by name; and why the others are left out.

    Raises:
        InputError: if a name is unknown.
    """
    found: dict[str, type[Engine[Any]]] = {}
    missing: dict[str, str] = {}
    for name in names:
        if name not in ENGINES:
            raise InputError(f"--engines: {name!r} is not one of: {', '.join(ENGINES)}")
        module, kind = ENGINES[name].split(":")
        try:
            found[name] = getattr(import_module(f"eval.bench.query_latency.engines.{module}"), kind)
        except ImportError as error:
            if (error.name or "").partition(".")[0] in OURS:
                raise
            missing[name] = f"{error.name} is not installed"
    return found, missing
