"""Passes requests that change an index on to the writers of its shards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from pydantic import BaseModel, TypeAdapter
from starlette.concurrency import run_in_threadpool

from indexer.manifest import owner
from server.backends import backends_of
from server.cluster.names import Served, writer_deployment
from server.cluster.shard_writer import Written
from server.json_bodies import MANY, read_json
from server.problems import ProblemError
from server.schemas import BatchAnswer, DeleteAnswer
from server.writing.bodies import Refresh
from server.writing.forward import PASSED_ON, Forwarder
from sparta.extras import require

SECONDS = 60.0  # for a writer to answer, and for Ray to start it where it has ended
GONE = "the writer of a shard ended; whether the change is saved is unknown: send it again"


class ClusterForwarder(Forwarder):
    """Sends each request to the writer of the shard that owns the image.

    A change that was waited for is in a commit, and replicas answer from the newest commit; so no
    replica has to be waited for.

    Args:
        served: the index.
    """

    def __init__(self, served: Served) -> None:
        super().__init__()
        self.use(served)

    def use(self, served: Served) -> None:
        """Write to another index from now on."""
        handle = require("ray.serve").get_deployment_handle
        # With the method named, a handle connects to Ray now: later, Ray's head may be down.
        self._writers = [
            handle(writer_deployment(number), served.application).send
            for number in range(served.shards)
        ]

    async def image(self, request: Request, image_id: str, refresh: Refresh) -> Response:
        """Pass a request about one image on."""
        path = quote(image_id, safe="").replace(".", "%2E")
        number = owner(image_id, len(self._writers))
        found = await self._written(request, number, path, refresh, await request.body())
        return await _response(request, found, refresh)

    async def send(
        self, request: Request, path: str, refresh: Refresh, body: bytes | None = None
    ) -> Response:
        """Pass on a request about many images, or about none."""
        content = await request.body() if body is None else body
        parts = {0: content}
        if path == "batch":
            parts = await run_in_threadpool(divided_lines, content, len(self._writers))
        elif path == "delete":
            parts = divided_ids(content, len(self._writers))
        found = await asyncio.gather(
            *(self._written(request, n, path, refresh, own) for n, own in parts.items())
        )
        failed = [one for one in found if one.status >= 400]
        if failed or path not in ("batch", "delete"):
            return await _response(request, (failed or found)[0], refresh)
        merged = await run_in_threadpool(_merged, path, found, content)
        return await _response(request, merged, refresh)

    async def _written(
        self, request: Request, number: int, path: str, refresh: Refresh, content: bytes
    ) -> Written:
        """The answer of one writer.

        Raises:
            ProblemError: if it ends, or there is none in time.
        """
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        headers["content-length"] = str(len(content))
        response = self._writers[number].remote(
            request.method, f"/v1/images/{path}", refresh, headers, content
        )
        try:
            found: Written = await asyncio.wait_for(response, SECONDS)
        except (
            TimeoutError,
            require("ray.exceptions").RayError,
            require("ray.serve.exceptions").RayServeException,
        ) as error:
            raise ProblemError("writing-failed", GONE) from error
        return found


def _merged(path: str, found: Sequence[Written], content: bytes) -> Written:
    """One response of what all writers have answered to their parts of a body."""
    answers = [json.loads(one.content) for one in found]
    whole: BaseModel = batch_answer(answers) if path == "batch" else delete_answer(answers, content)
    return Written(200, {"content-type": "application/json"}, whole.model_dump_json().encode())


async def _response(request: Request, found: Written, refresh: Refresh) -> Response:
    """The writer's response, with the version of the whole index."""
    content, media_type = found.content, found.headers.get("content-type")
    if found.status == 200 and refresh == "wait":
        answer: Mapping[str, Any] = await run_in_threadpool(json.loads, content)
        if "index_version" in answer:
            backends = backends_of(request)
            await run_in_threadpool(len, backends.default.searcher)  # learns of the new commits
            content = json.dumps({**answer, "index_version": backends.version}).encode()
    return Response(content, found.status, media_type=media_type)


class _Line(BaseModel):
    """What says which shard a line is for."""

    image_id: str


_LINE = TypeAdapter(_Line)


def divided_lines(body: bytes, shards: int) -> dict[int, bytes]:
    """A batch for each shard; lines of others are empty, so that lines keep their numbers.

    What is no object with an id, or too much, is left to the first shard, which says so.
    """
    if body.count(b"\n") > MANY:
        return {0: body}
    lines = body.split(b"\n")
    parts: dict[int, list[bytes]] = {}
    for place, line in enumerate(lines):
        if line.strip():
            number = _owner_of_line(line, shards)
            parts.setdefault(number, [b""] * len(lines))[place] = line
    return {number: b"\n".join(own) for number, own in parts.items()} or {0: body}


def _owner_of_line(line: bytes, shards: int) -> int:
    try:
        return owner(read_json(_LINE, line).image_id, shards)
    except (ValueError, ProblemError):
        return 0


def divided_ids(body: bytes, shards: int) -> dict[int, bytes]:
    """A list of ids for each shard."""
    parts: dict[int, list[str]] = {}
    for image_id in json.loads(body):
        parts.setdefault(owner(image_id, shards), []).append(image_id)
    return {number: json.dumps(own).encode() for number, own in parts.items()} or {0: body}


def batch_answer(parts: Sequence[Mapping[str, Any]]) -> BatchAnswer:
    """What all shards have written of a batch."""
    found = [BatchAnswer.model_validate(part) for part in parts]
    counts = ("created", "replaced", "updated", "deleted")
    errors = sorted((error for one in found for error in one.errors), key=lambda error: error.line)
    return BatchAnswer(
        **{name: sum(getattr(one, name) for one in found) for name in counts}, errors=errors
    )


def delete_answer(parts: Sequence[Mapping[str, Any]], body: bytes) -> DeleteAnswer:
    """What all shards have deleted of a list of ids, missing ones in its order."""
    found = [DeleteAnswer.model_validate(part) for part in parts]
    missing = {image_id for one in found for image_id in one.missing}
    ids = [image_id for image_id in dict.fromkeys(json.loads(body)) if image_id in missing]
    return DeleteAnswer(deleted=sum(one.deleted for one in found), missing=ids)
