"""The command `sparta serve`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from indexer.state import IndexState, newest_version
from server.security.listening import check_exposure
from server.settings import LoadedSettings, ServerSettings, load_settings, url
from sparta.commands.options import ADVANCED, Ray, advanced
from sparta.errors import InputError
from sparta.extras import check_installed

if TYPE_CHECKING:
    from server.backends import Backends
    from sparta.console import Console

ARGUMENT = "INDEX"
UNITS = ("bytes", "KB", "MB", "GB", "TB")
# Flags that are not --NAME-OF-THE-SETTING: repeatable ones, in the singular.
SINGULAR = {"examples": "--example", "models": "--model"}
FLAGS = (
    "photos", "host", "port", "workers", "engine", "models", "milvus", "keys", "tls_certificate",
    "tls_key", "examples",
)  # fmt: skip


def _flag(field: str) -> str:
    if field == "index":
        return ARGUMENT
    if field not in FLAGS:
        return f"--set {field}"
    return SINGULAR.get(field, f"--{field.replace('_', '-')}")


def _option(field: str, panel: str | None = None) -> Any:
    """A flag with the help and the default of its setting."""
    setting = ServerSettings.model_fields[field]
    text, default = setting.description, setting.default
    if isinstance(default, str | int | float) and default != "" and not isinstance(default, bool):
        text = f"{text} (default: {default})"
    return typer.Option(_flag(field), help=text, show_default=False, rich_help_panel=panel)


Index = Annotated[
    Path | None, typer.Argument(help="Index folder", show_default=False, metavar=ARGUMENT)
]
Config = Annotated[
    Path | None,
    typer.Option(help="YAML file of settings (default: the file that SPARTA_CONFIG names)"),
]
OTHERS = [name for name in ServerSettings.model_fields if name not in (*FLAGS, "index")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help=f"Another setting: {', '.join(OTHERS)}"),
]
Replicas = Annotated[int, advanced(min=1, help="With --ray: replicas of each shard")]
Check = Annotated[
    bool,
    typer.Option("--check", help="Print the settings, where each comes from, and the index; exit"),
]


def serve(
    context: typer.Context,
    index: Index = None,
    photos: Annotated[Path | None, _option("photos")] = None,
    host: Annotated[str | None, _option("host")] = None,
    port: Annotated[int | None, _option("port")] = None,
    workers: Annotated[int | None, _option("workers")] = None,
    models: Annotated[list[str] | None, _option("models")] = None,
    keys: Annotated[Path | None, _option("keys")] = None,
    examples: Annotated[list[str] | None, _option("examples")] = None,
    config: Config = None,
    set_: Settings = None,
    check: Check = False,
    engine: Annotated[str | None, _option("engine", ADVANCED)] = None,
    milvus: Annotated[str | None, _option("milvus", ADVANCED)] = None,
    tls_certificate: Annotated[Path | None, _option("tls_certificate", ADVANCED)] = None,
    tls_key: Annotated[Path | None, _option("tls_key", ADVANCED)] = None,
    ray: Ray = None,
    replicas: Replicas = 1,
) -> None:
    """Serve an index: the search page and the REST interface.

    The dense models of the index are backends of their own. For many requests at once, use as many
    --workers as there are cores. Settings come from flags, else from variables such as SPARTA_PORT,
    else from the file of --config.

    Example: sparta serve demo/index --photos ~/Pictures --port 8080

    Example: sparta serve demo/index --workers 4 --set rate=20 --set access_log=-

    Example: sparta serve prod=index-7, which is sparta restore index-7 prod --link first

    Example: sparta serve --config serve.yaml --check
    """
    if index is not None:
        context.params["index"] = _index_of(index, check)
    loaded = _read(context.params)
    if check:
        print_check(loaded)
    elif ray is not None:
        from server.cluster.deploy import serve_on

        serve_on(ray, loaded.settings, replicas)
    else:
        _run(loaded.settings)


def read_words(words: list[str]) -> LoadedSettings:
    """The settings of a server that was started with some words after `sparta serve`.

    Raises:
        InputError: naming the flag, variable or file and key of a wrong value.
    """
    app = typer.Typer(add_completion=False)
    app.command()(serve)
    given = typer.main.get_command(app).make_context("serve", words).params
    return _read({**given, "index": given["index"] or Path()})


def _read(params: Mapping[str, Any]) -> LoadedSettings:
    flags = {field: _flag(field) for field in ServerSettings.model_fields}
    others = _others(params["set_"] or [])
    found = {field: params.get(field) for field in flags} | others
    given = {field: value for field, value in found.items() if value not in (None, ())}
    names = flags | {name: f"--set {name}" for name in others}
    config = params["config"]  # a text
    return load_settings(given, names, config and Path(config))


def _others(given: list[str]) -> dict[str, str]:
    """The values of --set.

    Raises:
        InputError: if one is no NAME=VALUE.
    """
    found = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator:
            raise InputError(f"--set {one}: expected NAME=VALUE")
        found[name] = value
    return found


def _index_of(argument: Path, check: bool) -> Path:
    """The index that is served; NAME=INDEX lets the name stand for an index first."""
    name, separator, index = str(argument).partition("=")
    if not separator or argument.exists():
        return argument
    if check:
        return Path(index)
    from indexer.maintenance.copies import set_alias

    set_alias(Path(name), Path(index))
    return Path(name)


def _run(settings: ServerSettings) -> None:
    import signal
    from functools import partial

    from server.app import create_app
    from server.backends import open_backends
    from server.connections import raise_descriptors
    from server.processes import (
        Inherited,
        can_be_inherited,
        java_runs,
        run,
        run_workers,
        start_context,
    )
    from server.security.listening import check_exposure, listen
    from server.writing.forward import Forwarder
    from server.writing.process import writer_process
    from sparta.console import Console

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # what rotates logs sends it to some servers
    check_exposure(settings)
    raise_descriptors()
    if settings.tracing:
        check_installed("tracing", "opentelemetry.exporter.otlp", "opentelemetry.sdk")
    open_all = partial(open_backends, settings)
    forks = settings.workers > 1 and can_be_inherited(settings)
    # Workers that are no forks of this process load by themselves what they need; begin with it.
    if settings.workers > 1 and not forks:
        start_context()
    backends = open_all()
    with listen(settings.host, settings.port) as socket:
        address = url(settings.host, socket.getsockname()[1], settings.scheme)
        _announce(console, backends, settings.index, address)
        console.print("Stop with Ctrl+C.")
        if settings.workers == 1:
            with writer_process(settings) as writer:
                backends.warm_up_first()
                app = create_app(backends, settings, reopen=open_all, forwarder=Forwarder(writer))
                run(app, socket, settings)
        elif forks and not java_runs():
            run_workers(settings, open_all, socket, Inherited(backends, settings.index))
        else:
            backends.close()
            run_workers(settings, open_all, socket)


def _announce(console: Console, backends: Backends, index: Path, address: str) -> None:
    """Print what is served, and where."""
    count = len(backends.default.searcher)
    console.print(f"Serving {count:,} images of {index} at {address}")
    console.print(f"Open it in a browser; the REST interface is documented at {address}/docs")
    if len(names := [backend.name for backend in backends]) > 1:
        console.print(
            f"Backends: {', '.join(names)}. Dense models are loaded at their first query."
        )
    if backends.default.photos is None:
        console.print(
            "There is no photos folder: search works, but photos cannot be shown. Give it with "
            "--photos DIR.",
            style="yellow",
        )


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
        ("version", newest_version(settings.index)),
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
