"""Where the server listens."""

from __future__ import annotations

import errno
import ipaddress
import socket

from sparta.errors import InputError


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on the address already, so that a taken port is found at once.

    Raises:
        InputError: if the port is taken or not allowed, or the host is not this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family)
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: f"port {port} on {host} is busy: another program listens there. "
            "Stop it, or choose another port with --port (0 takes any free one)",
            errno.EACCES: f"port {port} needs more rights than you have: choose one above 1023",
        }
        reason = reasons.get(error.errno or 0, f"cannot listen on {host}: {error}")
        raise InputError(reason) from error
    # Connections inherit it; without, an answer's body waits some 40 ms for its head's receipt.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach the host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def url(host: str, port: int) -> str:
    """The address to open in a browser; for "all addresses", the one of this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
