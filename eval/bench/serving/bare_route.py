"""A server of one FastAPI route that returns a constant: what no search over HTTP can outdo.

python -m eval.bench.serving.bare_route BYTES
"""

from __future__ import annotations

import sys

import uvicorn
from fastapi import FastAPI, Response


def application(size: int) -> FastAPI:
    """Answers every search with as many bytes, without middleware of its own."""
    app = FastAPI()
    content = b'"%s"' % (b"x" * max(0, size - 2))

    @app.get("/v1/search")
    async def search() -> Response:
        return Response(content, media_type="application/json")

    @app.get("/readyz")
    async def ready() -> Response:
        return Response()

    return app


if __name__ == "__main__":
    uvicorn.run(application(int(sys.argv[1])), port=0, access_log=False)
