"""Where a server listens: whether it may, its socket and address, and its certificate."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from pathlib import Path
from typing import TypeAlias

from server.security.callers import is_loopback
from server.security.keys import ALLOWS, Key, default_file, read_keys
from server.settings import ServerSettings
from sparta.errors import InputError

CHECKED = 60.0  # seconds between two looks at the certificate's files

log = logging.getLogger(__name__)

_State: TypeAlias = tuple[int, int, int]  # a file's inode, change time and size


def check_exposure(settings: ServerSettings) -> None:
    """Check the keys and the certificate of a server before it listens.

    Raises:
        InputError: if other machines can reach it and no key lets them in, or a file of keys or
            certificates cannot be used.
    """
    if settings.certificate is not None:
        check_certificate(*settings.certificate)
    keys = _keys(settings)
    if any("search" in ALLOWS[key.scope] and not key.is_expired() for key in keys):
        return
    option = f" --keys {settings.keys}" if settings.keys else ""
    remedy = f"create one with: sparta keys create NAME{option}"
    if not is_loopback(settings.host):
        raise InputError(
            f"--host {settings.host} lets other machines in, and there is no key for them: "
            f"{remedy}; or leave --host out, to serve this machine alone"
        )
    if settings.is_proxied:
        option = "trusted_proxies" if settings.trusted_proxies else "root_path"
        raise InputError(
            f"{option} lets in whoever reaches the proxy, and there is no key for them: {remedy}"
        )


def _keys(settings: ServerSettings) -> list[Key]:
    try:
        return read_keys(settings.keys or default_file())
    except FileNotFoundError as error:
        if settings.keys is None:
            return []
        raise InputError(
            f"{settings.keys}: there is no such file of keys; create the first key with: "
            f"sparta keys create NAME --keys {settings.keys}"
        ) from error


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket, before anything is announced.

    Raises:
        InputError: if the port is in use or not allowed, or the host is not one of this machine.
    """
    both = host == "::" and socket.has_dualstack_ipv6()
    if host == "::" and not both:
        log.warning("this system lacks IPv6: listening on all addresses of IPv4")
        host = "0.0.0.0"
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, *_ = min(found, key=lambda one: one[0] != socket.AF_INET)  # of a name, IPv4 first
        listening = socket.create_server((host, port), family=family, dualstack_ipv6=both)
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


def check_certificate(certificate: Path, key: Path) -> None:
    """Check that two files can be served with, before anything else is opened.

    Raises:
        InputError: if one is missing or unreadable, they do not fit together, or the key has a
            passphrase.
    """
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)


async def renew_certificate(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Load a certificate again whenever its files change, until this is cancelled.

    Connections that are open keep the former one, and so do new ones while the files cannot be
    used.
    """
    loaded = _state(certificate, key)
    while True:
        await asyncio.sleep(CHECKED)
        if (found := _state(certificate, key)) == loaded:
            continue
        loaded = found
        try:
            check_certificate(certificate, key)
            _load(context, certificate, key)
        except InputError as error:
            log.error("%s; the former certificate stays in use", error)


def _state(*files: Path) -> list[_State | None]:
    found: list[_State | None] = []
    for file in files:
        try:
            stat = file.stat()
            found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        except OSError:
            found.append(None)
    return found


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    for option, path in (("--tls-certificate", certificate), ("--tls-key", key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise InputError(f"{option} {path} cannot be read: {error.strerror}") from error
    try:
        # Without a password, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(
            f"--tls-certificate {certificate} and --tls-key {key} cannot be used: give a chain of "
            "certificates and its private key without a passphrase, both in PEM form "
            f"({getattr(error, 'reason', None) or error})"
        ) from error


def _no_password() -> str:
    raise ValueError("the key has a passphrase")
