"""A connection to Milvus: time limits, and errors of one line."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from typing import Any

from sparta.errors import InputError, first_line
from sparta.extras import require

TOKEN_VARIABLE = "SPARTA_MILVUS_TOKEN"  # USER:PASSWORD or an API key
SECONDS = 30.0  # that one call may take
# The client would wait for up to two minutes before it looks for the server again, and ask every
# ten seconds whether it is there, also while nothing is called. A server of gRPC ends a connection
# on which it is asked more often than every five minutes, unless it was told otherwise.
CONNECTION = {
    "grpc.max_reconnect_backoff_ms": 2000,
    "grpc.keepalive_time_ms": 300_000,
    "grpc.keepalive_permit_without_calls": False,
}
CONNECT_FAILED = 2  # of the client's error codes
_ADDRESS = re.compile(r"(milvus|https?)(://[^/@\s]+(?:/\w*)?)")


class MilvusError(InputError):
    """A call failed; the text names the server."""

    def __init__(self, text: str, unknown: bool = False) -> None:
        super().__init__(text)
        self.unknown = unknown  # whether the server does not have the function that was called


class Milvus:
    """A server, or a cluster behind one address. Safe from any thread.

    The address is such as milvus://127.0.0.1:19530, with a database after a slash if it is not the
    default one; https://… for TLS. A user and a password, or a key, are read from the environment
    variable SPARTA_MILVUS_TOKEN. One call may take so many seconds. Raises InputError if the
    address is another's, pymilvus is not installed, or no server answers.
    """

    def __init__(self, uri: str, seconds: float = SECONDS) -> None:
        found = _ADDRESS.fullmatch(uri)
        if found is None:
            raise InputError(
                f"{uri!r} is no address of Milvus: give one such as milvus://127.0.0.1:19530, and "
                f"a password or key in {TOKEN_VARIABLE}"
            )
        self.uri, self._seconds = uri, seconds
        pymilvus = require("pymilvus")
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # errors are raised as well
        scheme, rest = found.groups()
        address = ("http" if scheme == "milvus" else scheme) + rest
        token = os.environ.get(TOKEN_VARIABLE, "")
        self.client = self._attempt(
            pymilvus.MilvusClient, address, token=token, grpc_options=CONNECTION
        )

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of `pymilvus.MilvusClient`; raises MilvusError if it fails.

        The client repeats a call that the server has no capacity for now, until its time is over.
        """
        return self._attempt(getattr(self.client, method), *arguments, **named)

    def _attempt(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        import grpc
        from pymilvus import MilvusException

        codes = grpc.StatusCode
        try:
            return function(*arguments, timeout=self._seconds, **named)
        except MilvusException as error:
            if error.code in (CONNECT_FAILED, codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED):
                text = f"{self.uri} does not answer, or not within {self._seconds:g} s"
                raise MilvusError(f"{text}: look whether Milvus runs there") from error
            reason = first_line(ValueError(error.message)).strip(".,: ")
            raise MilvusError(f"{self.uri}: {reason}") from error
        except grpc.RpcError as error:
            unknown = error.code() is codes.UNIMPLEMENTED
            text = f"{self.uri}: {error.code().name}: {error.details()}"
            raise MilvusError(text, unknown=unknown) from error

    def close(self) -> None:
        """Close the connection."""
        self.client.close()
