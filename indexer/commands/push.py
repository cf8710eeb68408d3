"""`sparta push`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from indexer.commands.options import IndexFolder

if TYPE_CHECKING:
    from indexer.milvus.push import Pushed
    from sparta.console import Console

Address = Annotated[
    str,
    typer.Argument(
        metavar="URI",
        help="Of the server: milvus://HOST:PORT, or https://… for TLS. A password or key is read "
        "from SPARTA_MILVUS_TOKEN.",
    ),
]
Name = Annotated[
    str, typer.Option("--collection", help="Alias of the collection; its name is NAME_VERSION.")
]
Follow = Annotated[
    bool, typer.Option("--follow", help="Push what is written to the index, until interrupted.")
]
DropFormer = Annotated[
    bool, typer.Option("--drop-former", help="Drop the collections of former versions afterwards.")
]


def push(
    index: IndexFolder,
    uri: Address,
    collection: Name = "sparta",
    follow: Follow = False,
    drop_former: DropFormer = False,
) -> None:
    """Copy an index into Milvus, where searches find the same images with the same scores.

    A push that was interrupted continues, and one of an index that was written to since pushes
    what has changed. The alias names the collection once it is complete.

    For example:

    sparta push index/ milvus://127.0.0.1:19530

    sparta push index/ milvus://127.0.0.1:19530 --collection photos --follow
    """
    from indexer.milvus.connection import Milvus
    from indexer.milvus.push import follow as follow_index
    from indexer.milvus.push import push as push_index
    from sparta.console import Console
    from sparta.errors import InputError
    from sparta.progress import progress_bars

    if follow and drop_former:
        raise InputError("give --follow or --drop-former, not both")
    console, milvus = Console(soft_wrap=True, highlight=False), Milvus(uri)
    with progress_bars({"push": ("Pushing images", "images")}, Console(stderr=True)) as progress:
        if not follow:
            _report(console, push_index(index, milvus, collection, drop_former, progress))
            return
        follow_index(
            index,
            milvus,
            collection,
            lambda pushed: _report(console, pushed),
            console.print,
            progress,
        )


def _report(console: Console, pushed: Pushed) -> None:
    text = (
        f"{pushed.collection}: {pushed.images:,} images, {pushed.written:,} written, "
        f"{pushed.deleted:,} deleted"
    )
    if not pushed.switched:
        text += "; the server has no aliases: use this name"
    console.print(text)
    if pushed.former:
        names = ", ".join(pushed.former)
        console.print(f"Former versions, which --drop-former drops: {names}")
