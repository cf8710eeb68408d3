"""Selection of records by collection, engine and cell."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]
USUAL = 1000  # top-n of tables and pictures over sizes, if it was measured


def is_dense(record: Record) -> bool:
    """Whether a record is of vectors of a dense model, to which no top-n applies."""
    return record["top_n"] is None


def groups(records: list[Record]) -> list[list[Record]]:
    """Records by the sparse vectors they are of, with the dense engines' of the same kind."""
    keys = dict.fromkeys((one["kind"], one["vectors"]) for one in records if not is_dense(one))
    if not keys:
        return [records] if records else []
    return [
        [
            one
            for one in records
            if one["kind"] == kind and (is_dense(one) or one["vectors"] == vectors)
        ]
        for kind, vectors in keys
    ]


def heading(group: list[Record]) -> str:
    """The sparse vectors of a group."""
    names = [f"{one['kind']}, {one['vectors']}" for one in group if not is_dense(one)]
    return names[0] if names else f"{group[0]['kind']}, dense"


def top_ns(group: list[Record]) -> list[int | str]:
    """Those measured, rising."""
    found = dict.fromkeys(one["top_n"] for one in group if not is_dense(one))
    return sorted(found, key=lambda n: (n == "all", 0 if n == "all" else n))


def usual_top_n(group: list[Record]) -> int | str | None:
    """1000, or else the largest measured."""
    found = top_ns(group)
    return USUAL if USUAL in found else (found[-1] if found else None)


def label(record: Record) -> str:
    """An engine's name, with its vectors where they are of a dense model."""
    engine: str = record["engine"]
    return f"{engine} ({record['vectors']})" if is_dense(record) else engine


def at(group: list[Record], **values: object) -> list[Record]:
    """Records with these values; top-n does not apply to dense engines."""
    return [
        one
        for one in group
        if all(
            one[key] == value or (key == "top_n" and is_dense(one)) for key, value in values.items()
        )
    ]


def alone(group: list[Record]) -> list[Record]:
    """Records of the smallest k and the fewest threads."""
    k, threads = min(one["k"] for one in group), min(one["threads"] for one in group)
    return at(group, k=k, threads=threads)
