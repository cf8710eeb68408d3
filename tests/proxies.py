"""nginx and Caddy in front of a server, with the lines that docs/operations.md shows."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.documents import ROOT, code_blocks
from tests.needs import find
from tests.server.apps import make_certificate

NAME = "photos.example"  # of the site in the documented lines
PAGE = ROOT / "docs/operations.md"
NGINX = """
pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {lines}
}}
"""
# Certificates of its own, on other ports than 443 and 80.
CADDY = """
{{
    admin off
    local_certs
    skip_install_trust
    https_port {port}
    http_port {other}
}}
{lines}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def documented(language: str, path: str) -> str:
    """The lines for a site of its own, or for one below a path such as /photos."""
    [block] = [one for one in code_blocks(PAGE, language) if ("/photos/" in one) == bool(path)]
    return block


@contextmanager
def proxy(kind: str, path: str, server: int, folder: Path, lines: str = "") -> Iterator[int]:
    """Run a proxy of a server's port with the documented lines, or others; yields its port.

    Ports, and files of certificates, are other ones; nothing else is changed.
    """
    folder.mkdir(exist_ok=True)
    program = find(kind)
    port, other = free_port(), free_port()
    lines = lines or documented({"caddy": "caddyfile"}.get(kind, kind), path)
    lines = lines.replace("127.0.0.1:8000", f"127.0.0.1:{server}")
    if kind == "nginx":
        chain, key = make_certificate(folder)
        if "server {" not in lines:
            head = f"listen 443 ssl; server_name {NAME};"
            head += f"ssl_certificate {chain}; ssl_certificate_key {key};"
            lines = f"server {{ {head}\n{lines} }}"
        lines = re.sub(r"/etc/ssl/\S+/chain.pem", str(chain), lines)
        lines = re.sub(r"/etc/ssl/\S+/key.pem", str(key), lines)
        lines = re.sub(r"listen (\[::\]:)?443", rf"listen \g<1>{port}", lines)
        lines = re.sub(r"listen (\[::\]:)?80", rf"listen \g<1>{other}", lines)
        (folder / "conf").write_text(NGINX.format(folder=folder, lines=lines))
        command = [program, "-c", str(folder / "conf"), "-g", "daemon off; user root;"]
    else:
        (folder / "conf").write_text(CADDY.format(port=port, other=other, lines=lines))
        command = [program, "run", "--adapter", "caddyfile", "--config", str(folder / "conf")]
    homes = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, stdout=log, env={**os.environ, **homes})
        try:
            _wait(process, port, folder)
            yield port
        finally:
            process.terminate()
            process.wait(20)


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            logs = "".join(file.read_text() for file in folder.glob("*log"))
            assert process.poll() is None and time.monotonic() < end, logs
            time.sleep(0.05)
