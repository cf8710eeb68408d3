"""Whether a server may start: nobody may reach it without a key but this machine."""

from __future__ import annotations

from server.security.install import is_proxied
from server.security.keys import ALLOWS, Key, default_file, read_keys
from server.security.tls import check_certificate
from server.settings import ServerSettings
from server.sockets import is_loopback
from sparta.errors import InputError


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
    if is_proxied(settings):
        option = "--trusted-proxy" if settings.trusted_proxies else "--root-path"
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
