"""An index served on a Ray cluster: the application over remote shards, and how it is started."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event
from typing import Any, TypeVar
from urllib.parse import quote

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, TypeAdapter
from starlette.concurrency import run_in_threadpool

from indexer.dense.manifest import SPARSE
from indexer.engines.open import read_language
from indexer.engines.shards import Question, Shards, ShardsEngine
from indexer.manifest import index_folders, owner
from indexer.search.searcher import Searcher
from indexer.state import IndexState, bytes_below
from indexer.store.commit import SEGMENTS
from server.app import create_app
from server.backends import Backend, Backends, backends_of, photos_of
from server.cluster import Root
from server.cluster.shard import (
    INDEX,
    INGRESS,
    SHARD,
    WRITER,
    Refusal,
    Served,
    ShardReplica,
    ShardWriter,
    Written,
)
from server.problems import ProblemError
from server.requests import MANY, read_json
from server.schemas import BatchAnswer, DeleteAnswer
from server.security.listening import check_exposure
from server.settings import ServerSettings, url
from server.writing.bodies import Refresh
from server.writing.forward import PASSED_ON, Forwarder
from server.writing.process import STOPS
from sparta.cluster import LOCAL, connected
from sparta.console import Console
from sparta.errors import InputError
from sparta.extras import require
from sparta.json_values import Json, JsonMapping

Result = TypeVar("Result")
SECONDS = 10.0  # that a shard has to answer, and Ray to find a replica that does
PARTIAL_SECONDS = 1.0  # the same where an answer without it will do
TRY_SECONDS = 3.0  # for one replica, before another one is tried
PAUSE = 0.05  # seconds before the next try
WRITE_SECONDS = 60.0  # for a writer to answer, and for Ray to start it where it has ended
GONE = "the writer of a shard ended; whether the change is saved is unknown: send it again"
AT_ONCE = 100  # questions of a replica
DRAIN = 5.0  # seconds that requests with the former index have left
LITTLE: dict[str, Any] = {"num_cpus": 0}
# How soon Ray notices that a replica is not well.
HEALTH = {"health_check_period_s": 2, "health_check_timeout_s": 10}

# Parts call one another by gRPC. With Ray's own calls, a replica whose caller died answers nobody
# until Ray's head has said so, which may have died with the caller.
ENVIRONMENT = {
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "server.cluster.middlewares",
}


def open_remote(settings: ServerSettings, served: Served) -> Backends:
    """The backends over the shards of an index on this cluster.

    Raises InputError if the folder is not on this machine, or is another index; UnavailableError if
    a shard does not answer.
    """
    index = Path(served.folder)
    engine = ShardsEngine(RemoteShards(served))
    searcher = Searcher(engine, read_language(index), lenient=engine.lenient)
    searcher.warm_up()
    state = IndexState.read(index)
    backend = Backend(
        SPARSE,
        searcher,
        photos_of(settings, state),
        settings.examples,
        uploads=tuple(index_folders(index)),
    )
    return Backends([backend], state)


class Ingress:
    """The application, which `reconfigure` changes over to another index."""

    async def __init__(  # type: ignore[misc] # as Ray Serve starts what has an application
        self, settings: ServerSettings, served: Served
    ) -> None:
        self._settings, self._served = settings, served
        backends = await asyncio.to_thread(open_remote, settings, served)
        self._forwarder = ClusterForwarder(served)
        self._app = create_app(backends, settings, forwarder=self._forwarder)

    def __serve_build_asgi_app__(self) -> FastAPI:  # Ray's name
        """The application, as Ray asks for it."""
        return self._app

    async def reconfigure(self, served: Json) -> None:
        """Use an index for new requests; those in flight end with the former one."""
        wanted = Served(**served)
        if wanted == self._served:
            return
        current = self._app.state.current
        current.change(await asyncio.to_thread(open_remote, self._settings, wanted))
        current.close_unused()
        self._served = wanted
        self._forwarder.use(wanted)


def gone() -> tuple[type[Exception], ...]:
    """What Ray raises when a replica, its machine or all of them are gone."""
    serving = require("ray.serve.exceptions")
    return require("ray.exceptions").RayError, serving.RayServeException, TimeoutError


class RemoteShards(Shards):
    """The shards of an index on the cluster, which follow their newest commits; see `Shards`."""

    def __init__(self, served: Served) -> None:
        serve = require("ray.serve")
        self._replicas: Sequence[Any] = [
            serve.get_deployment_handle(SHARD.format(number), served.application).ask
            for number in range(served.shards)
        ]

    def __len__(self) -> int:
        return len(self._replicas)

    def ask(
        self, questions: Mapping[int, Question[Result]], lenient: bool
    ) -> tuple[dict[int, Result], list[int]]:
        """The answers of those shards that answer in time, and the numbers of the others."""
        end = time.monotonic() + (PARTIAL_SECONDS if lenient else SECONDS)
        waiting = {n: self._replicas[n].remote(question) for n, question in questions.items()}
        answers: dict[int, Result] = {}
        missing = []
        for number, question in questions.items():
            found = self._answer(number, question, waiting[number], end)
            if found is None:
                missing.append(number)
            elif isinstance(found, Refusal):
                raise found.error
            else:
                answers[number] = found
        return answers, missing

    def _answer(self, number: int, question: Question[Any], response: Any, end: float) -> Any:
        """What a replica of the shard answers; None if none does in time."""
        task_error = require("ray.exceptions").RayTaskError
        while True:
            left = end - time.monotonic()
            try:
                return response.result(timeout_s=max(0.001, min(TRY_SECONDS, left)))
            except task_error:
                raise  # a fault of the program, which another replica has as well
            except gone():
                response.cancel()
                if left <= PAUSE:
                    return None
                time.sleep(PAUSE)
                response = self._replicas[number].remote(question)


class ClusterForwarder(Forwarder):
    """Sends each request to the writer of the shard that owns the image.

    A change that was waited for is in a commit, and replicas answer from the newest commit; so no
    replica has to be waited for.
    """

    def __init__(self, served: Served) -> None:
        super().__init__()
        self.use(served)

    def use(self, served: Served) -> None:
        """Write to another index from now on."""
        handle = require("ray.serve").get_deployment_handle
        # With the method named, a handle connects to Ray now: later, Ray's head may be down.
        self._writers = [
            handle(WRITER.format(number), served.application).send
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
        """The answer of one writer; raises ProblemError if it ends, or there is none in time."""
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        headers["content-length"] = str(len(content))
        response = self._writers[number].remote(
            request.method, f"/v1/images/{path}", refresh, headers, content
        )
        try:
            found: Written = await asyncio.wait_for(response, WRITE_SECONDS)
        except gone() as error:
            raise ProblemError("writing-unsure", GONE) from error
        return found


def _merged(path: str, found: Sequence[Written], content: bytes) -> Written:
    """One response of what all writers have answered to their parts of a body."""
    whole: BaseModel
    if path == "batch":
        batches = [BatchAnswer.model_validate_json(one.content) for one in found]
        errors = sorted((e for one in batches for e in one.errors), key=lambda error: error.line)
        counts = ("created", "replaced", "updated", "deleted")
        sums = {name: sum(getattr(one, name) for one in batches) for name in counts}
        whole = BatchAnswer(**sums, errors=errors)
    else:
        lists = [DeleteAnswer.model_validate_json(one.content) for one in found]
        missing = {image_id for one in lists for image_id in one.missing}
        ids = [image_id for image_id in dict.fromkeys(json.loads(content)) if image_id in missing]
        whole = DeleteAnswer(deleted=sum(one.deleted for one in lists), missing=ids)
    return Written(200, {"content-type": "application/json"}, whole.model_dump_json().encode())


async def _response(request: Request, found: Written, refresh: Refresh) -> Response:
    """The writer's response, with the version of the whole index."""
    content, media_type = found.content, found.headers.get("content-type")
    if found.status == 200 and refresh == "wait":
        answer: JsonMapping = await run_in_threadpool(json.loads, content)
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


def serve_on(address: str, settings: ServerSettings, replicas: int) -> None:
    """Serve on a Ray cluster; on one that this process starts, until one of `STOPS`.

    `address` is HOST:PORT of the cluster's head, "auto" for the one that runs here, or "local"; see
    `deploy` for the others.

    Raises InputError if there is no such cluster, or as `deploy`.
    """
    if settings.workers > 1:
        raise InputError("--workers is not for --ray: give --replicas")
    check_exposure(settings)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with connected(address, environment=ENVIRONMENT):
        deploy(settings, replicas)
        here = url(settings.host, settings.port, settings.scheme)
        console.print(f"Serving {settings.index} at {here} on every machine")
        if address == LOCAL:
            console.print("Stop with Ctrl+C.")
            for number in STOPS:
                signal.signal(number, signal.default_int_handler)
            with suppress(KeyboardInterrupt):
                Event().wait()
        else:
            console.print("It stays when this command ends; serve shutdown ends it.")


def deploy(settings: ServerSettings, replicas: int) -> None:
    """Serve an index on the cluster that this process is connected to.

    The index is at one path on all machines. Each shard and the application have so many replicas,
    on as many machines if there are. An index that was served there before is changed over: its
    shards go when those of the new one answer, and no request fails. Raises InputError if the index
    cannot be opened, or Ray Serve is not installed.
    """
    serve = require("ray.serve")
    served = Served.of(settings.index)
    chain, key = settings.certificate or (None, None)
    listening = {
        "host": settings.host,
        "port": settings.port,
        "ssl_certfile": chain and str(chain),
        "ssl_keyfile": key and str(key),
    }
    serve.start(proxy_location="EveryNode", http_options=listening)
    machines: int = sum(node["Alive"] for node in require("ray").nodes())
    spread = -(-replicas // max(1, machines))  # on one machine: 1, if there are as many machines
    parts = [*_parts(served, settings, replicas, spread)]
    root = serve.deployment(Root).options(name="root", ray_actor_options=LITTLE)
    serve.run(root.bind(*parts), name=served.application, route_prefix=None)
    ingress = serve.deployment(serve.ingress()(Ingress)).options(
        name="ingress",
        num_replicas=replicas,
        max_ongoing_requests=10 * AT_ONCE,
        max_replicas_per_node=spread,
        ray_actor_options=LITTLE,
        user_config=asdict(served),
        **HEALTH,
    )
    serve.run(ingress.bind(settings, served), name=INGRESS, route_prefix="/")
    former = [name for name in serve.status().applications if name.startswith(INDEX)]
    former.remove(served.application)
    if former:
        time.sleep(DRAIN)
    for name in former:
        serve.delete(name)


def _parts(served: Served, settings: ServerSettings, replicas: int, spread: int) -> Iterator[Any]:
    """The deployments of an index, bound."""
    serve = require("ray.serve")
    for number, folder in enumerate(index_folders(Path(served.folder))):
        yield (
            serve.deployment(ShardReplica)
            .options(
                name=SHARD.format(number),
                num_replicas=replicas,
                max_ongoing_requests=AT_ONCE,
                max_replicas_per_node=spread,
                ray_actor_options={**LITTLE, "memory": bytes_below(folder / SEGMENTS)},
                **HEALTH,
            )
            .bind(served, number)
        )
        yield (
            serve.deployment(ShardWriter)
            .options(
                name=WRITER.format(number),
                num_replicas=1,
                max_ongoing_requests=AT_ONCE,
                ray_actor_options=LITTLE,
                **HEALTH,
            )
            .bind(served, number, settings.models)
        )
