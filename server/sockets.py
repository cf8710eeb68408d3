"""The listening socket of the server, and its address."""

from __future__ import annotations

import errno
import ipaddress
import socket
from functools import lru_cache

from sparta.errors import InputError

REMEMBERED = 128  # addresses of clients


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket, before anything is announced.

    Raises:
        InputError: if the port is in use or not allowed, or the host is not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: f"port {port} on {host} is in use by another program: stop it, or "
            "choose another port with --port (0 for any free one)",
            errno.EACCES: f"port {port} needs more permissions than you have: use one above 1023",
        }
        reason = reasons.get(error.errno or 0, f"cannot listen on {host}: {error}")
        raise InputError(reason) from error
    # Inherited by connections. Without it, the body of a response waits about 40 ms for the
    # acknowledgement of its headers.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


@lru_cache(REMEMBERED)
def is_loopback(host: str) -> bool:
    """Whether the host can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url(host: str, port: int, scheme: str = "http") -> str:
    """The address to open in a browser; for a host of all addresses, that of this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{shown}]:{port}" if ":" in shown else f"{scheme}://{shown}:{port}"
