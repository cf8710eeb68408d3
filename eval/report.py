"""The output of a measurement: its head and a table for the terminal, JSON for programs."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import typer
from rich.box import MARKDOWN
from rich.console import Group
from rich.table import Table

from indexer.dense.manifest import SPARSE, DenseManifest, dense_folder, dense_names, members_of
from indexer.manifest import MANIFEST, Manifest, index_folders, is_index
from indexer.store.commit import COMMIT
from sparta.console import Console
from sparta.features.store import HEADER, FeatureStore
from sparta.json_values import Json, JsonMapping

# Arguments that name what is measured on; other paths are written.
DATA = (
    *("index", "source", "features", "captions", "photos", "queries", "judgements", "image_list"),
    *("frequencies", "recall", "objects"),
)
SHOWN = 12  # hexadecimal digits of a fingerprint in the printed head


class Measured(Protocol):
    """Figures that can be shown and written."""

    def record(self) -> Json:
        """The figures as JSON values."""

    def table(self) -> Table | Group:
        """The figures as a table, or as several between lines of text."""


# ---- the head ------------------------------------------------------------------------------------


def circumstances() -> Json:
    """Version, date (UTC), and the machine: processor, cores this process may use, Python."""
    here = hasattr(os, "sched_getaffinity")
    return {
        "version": version("visualsparta"),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)) if here else os.cpu_count(),
            "python": platform.python_version(),
        },
    }


def _processor() -> str:
    """The processor's name; on Linux `platform` does not find it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def head_of(context: typer.Context, models: Sequence[str] = (), seed: int | None = None) -> Json:
    """The head of a result: what was measured, with which program, where.

    Args:
        context: of the command.
        models: fingerprints of the measured models, in the order of the command.
        seed: of everything that was drawn at random; None if nothing was.

    Returns:
        JSON values: command, arguments (of a path only its name: its folder means nothing
        elsewhere), `circumstances`, data (argument → `fingerprint` of each file and folder that it
        names), models, seed.
    """
    # Values are as typed: Typer converts them for the command's function only.
    paths = {str(one.name) for one in context.command.params if one.type.name == "path"}
    arguments = {
        name: _named(value) if name in paths else value for name, value in context.params.items()
    }
    data = {name: _fingerprints(context.params.get(name), name in paths) for name in DATA}
    return {
        "command": _command(context, arguments),
        "arguments": arguments,
        **circumstances(),
        "data": {name: found for name, found in data.items() if found},
        "models": list(models),
        "seed": seed,
    }


def _named(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_named(one) for one in value]
    return value if value is None else Path(value).name


def _command(context: typer.Context, arguments: JsonMapping) -> str:
    """The command line, its arguments in the order of their declaration."""
    words = ["sparta" + context.command_path.removeprefix(context.find_root().command_path)]
    for one in context.command.params:
        source = context.get_parameter_source(str(one.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        value, option = arguments[str(one.name)], max(one.opts, key=len)
        if isinstance(value, bool):
            words.append(option if value else one.secondary_opts[0])
            continue
        named = [option] * (one.param_type_name == "option")
        for text in value if isinstance(value, list | tuple) else [value]:
            words += [*named, shlex.quote(str(text))]
    return " ".join(words)


def _fingerprints(value: Any, path: bool) -> list[str]:
    """Of the files and folders that an argument names, also within a text of several."""
    values = [str(one) for one in (value if isinstance(value, list | tuple) else [value]) if one]
    parts = values if path else [part for one in values for part in re.split("[=,]", one)]
    return [fingerprint(one) for one in map(Path, parts) if one.is_file() or one.is_dir()]


def fingerprint(path: Path) -> str:
    """Identify data by content, in hexadecimal.

    A feature store has its own. An index is identified by its manifests and its commit, a file by
    its SHA-256, another folder by the SHA-256 of the lines that `sha256sum` prints of its files.
    """
    if (path / HEADER).is_file():
        return FeatureStore.open(path).fingerprint
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if is_index(path):
        files = [path / MANIFEST]
        for folder in index_folders(path):
            parts = [dense_folder(folder, name) for name in dense_names(folder)]
            files += [part / MANIFEST for part in (folder, *parts)]
            files.append(folder / COMMIT)
    else:
        # Arrays are the features beside captions in precomp folders: many gigabytes, not read.
        files = sorted(one for one in path.rglob("*") if one.is_file() and one.suffix != ".npy")
    lines = (f"{fingerprint(one)}  {one.relative_to(path)}\n" for one in files)
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def index_models(index: Path, backend: str = SPARSE) -> list[str]:
    """Fingerprints of the models that made a backend of an index."""
    folders = index_folders(index)
    if backend == SPARSE:
        return list(dict.fromkeys(one for own in folders for one in Manifest.read(own).models))
    names, of = members_of(backend, dense_names(index)) or [backend], Manifest.read(index)
    return [DenseManifest.read(index, one, of).model for one in names]


# ---- output --------------------------------------------------------------------------------------


def head_text(head: JsonMapping) -> str:
    """The head as three lines, fingerprints by their first digits."""
    data = [f"{name} {one[:SHOWN]}" for name, found in head["data"].items() for one in found]
    models = [one[:SHOWN] for one in head["models"]]
    seed = "none" if head["seed"] is None else head["seed"]
    return (
        f"{head['command']}\n"
        f"visualsparta {head['version']}, {head['date']}, "
        f"{head['machine']['cores']} cores of {head['machine']['processor']}\n"
        f"data: {', '.join(data) or 'none'}; models: {', '.join(models) or 'none'}; seed: {seed}"
    )


def report(
    found: Measured, head: JsonMapping, out: Path | None, as_json: bool, *, markdown: bool = False
) -> None:
    """Print the figures below their head, and write both to a JSON file and its Markdown table."""
    text = json.dumps({**head, **found.record()}, indent=2, default=str)
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")
        if markdown:
            shown = found.table()
            for one in shown.renderables if isinstance(shown, Group) else [shown]:
                if isinstance(one, Table):
                    one.box, one.show_edge = MARKDOWN, True
            with out.with_suffix(".md").open("w", encoding="utf-8") as file:
                file.write(markdown_head(head))
                Console(file=file, width=300).print(shown)
    if as_json:
        typer.echo(text)
    else:
        print_head(head)
        Console().print(found.table())


def print_head(head: JsonMapping) -> None:
    """Print the head above a table."""
    Console().print(head_text(head), highlight=False, soft_wrap=True)


def markdown_head(head: JsonMapping) -> str:
    """The head as a block of Markdown."""
    return "".join(f"    {line}\n" for line in head_text(head).splitlines()) + "\n"
