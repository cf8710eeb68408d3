"""What `sparta serve --check` prints: the settings, and the index as its manifests describe it."""

from __future__ import annotations

import typer

from indexer.state import IndexState
from server.security.exposure import check_exposure
from server.settings import LoadedSettings, ServerSettings
from server.sockets import url

UNITS = ("bytes", "KB", "MB", "GB", "TB")


def print_check(loaded: LoadedSettings) -> None:
    """Print what would run.

    Raises:
        InputError: if there must be a key first, or the index is none, or is damaged as far as
            sizes and manifests show.
    """
    settings = loaded.settings
    typer.echo("Settings, and where each comes from:")
    _print_aligned(_settings(loaded))
    for name in loaded.ignored:
        typer.echo(f"Ignored: {name} is set and names no setting.")
    check_exposure(settings)
    state = IndexState.read(settings.index)
    typer.echo(f"\nIndex {settings.index}:")
    _print_aligned(_facts(state, settings))
    workers = f"{settings.workers} {'process' if settings.workers == 1 else 'processes'}"
    address = url(settings.host, settings.port, settings.scheme)
    typer.echo(f"\nWould serve at {address} with {workers}.")


def _settings(loaded: LoadedSettings) -> list[tuple[str, ...]]:
    return [(field, loaded.shown(field), origin) for field, origin in loaded.origins.items()]


def _facts(state: IndexState, settings: ServerSettings) -> list[tuple[str, ...]]:
    manifest = state.manifest
    folder = settings.photos or manifest.photos
    return [
        ("version", state.version),
        ("built", f"{manifest.created} by visualsparta {manifest.package_version}"),
        ("images", f"{state.images:,}"),
        ("postings", f"{manifest.postings:,} of {manifest.distinct_terms:,} terms"),
        ("size", _size(state.bytes)),
        ("engine", settings.engine),
        ("dense models", ", ".join(state.dense) or "none"),
        ("photos", str(folder or "none: photos cannot be shown")),
    ]


def _size(count: float) -> str:
    unit = 0
    while count >= 1000 and unit < len(UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.0f} {UNITS[unit]}" if unit == 0 else f"{count:.1f} {UNITS[unit]}"


def _print_aligned(rows: list[tuple[str, ...]]) -> None:
    """Print rows in columns, however long: they may be searched by another program."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(f"  {'  '.join(cells)}".rstrip())
