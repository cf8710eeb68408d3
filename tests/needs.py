"""What a test needs of the machine beyond Python and the packages of the project.

`@pytest.mark.needs("Node.js", "wrk")` declares it, by names of `NEEDS` or of programs. On a machine
that lacks one, the test is skipped and the summary names it; with CI set, it fails.

PATH holds Python's own folder alone while a test runs that declares nothing (`tests/conftest.py`).
So a test that starts an undeclared program fails on every machine.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

BARE = bool(os.environ.get("BARE_MACHINE"))  # as if it had nothing of what tests need
EVERY = bool(os.environ.get("EVERY_CASE"))  # as `make torture` sets it
MACHINE_PATH = os.environ.get("PATH", os.defpath)
OWN_PATH = str(Path(sys.executable).parent)
NODE_MODULES = Path(__file__).parent / "server" / "typescript" / "node_modules"


class Need(NamedTuple):
    """How to find something, and how to get it."""

    find: Callable[[], str | None]
    remedy: str


def program(*names: str) -> str | None:
    """Path of the first of these programs that the machine has."""
    return next(filter(None, (shutil.which(name, path=MACHINE_PATH) for name in names)), None)


def _ipv6() -> str | None:
    with suppress(OSError), socket.socket(socket.AF_INET6) as one:
        one.bind(("::1", 0))
        return "::1"
    return None


def _mounts() -> str | None:
    with suppress(OSError):
        found = re.search(r"CapEff:\s+(\w+)", Path("/proc/self/status").read_text())
        places = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
        # CAP_SYS_ADMIN, and a root of which a process can have its own: that of chroot is no mount.
        if found and int(found[1], 16) >> 21 & 1 and "/" in places:
            return "SYS_ADMIN"
    return None


def _localhost() -> str | None:
    with suppress(OSError):
        return socket.gethostbyname("localhost")
    return None


CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NEEDS = {
    "Chromium": Need(lambda: program(*CHROMIUM), "apt-get install chromium"),
    "Firefox": Need(lambda: program("firefox-esr", "firefox"), "apt-get install firefox-esr"),
    "Node.js": Need(lambda: program("node"), "apt-get install nodejs"),
    "packages of npm": Need(
        lambda: str(NODE_MODULES) if NODE_MODULES.is_dir() else None,
        "apt-get install npm, then make clean install",
    ),
    "systemd-analyze": Need(
        lambda: program("systemd-analyze"), "apt-get install systemd, which need not run"
    ),
    "C compiler": Need(lambda: program("cc", "gcc", "clang"), "apt-get install gcc"),
    "unshare": Need(lambda: program("unshare"), "apt-get install util-linux"),
    "user namespaces": Need(lambda: None, "allow them to this user: see user_namespaces(7)"),
    "root": Need(lambda: "root" if os.geteuid() == 0 else None, "run it as root"),
    "mounts": Need(_mounts, "run it as root, in a container with SYS_ADMIN, not in chroot"),
    "IPv6": Need(_ipv6, "give the loopback interface the address ::1"),
    "the name localhost": Need(_localhost, "name localhost in /etc/hosts"),
}
# Fixtures that need something, and so every test that takes them.
OF_FIXTURES = {
    "browser": "Chromium",
    "firefox": "Firefox",
    "ray_nodes": "bash",  # which starts Ray's workers
}
# What else is missing, a pattern → how to get it.
OTHERS = {
    r"Linux": "run it on Linux, with /proc mounted",
    r"compiled kernel": "apt-get install gcc python3-dev, then make clean install",
    r"real photos|vocabularies": "put the folder `shared` beside this checkout",
    r"milvus-lite": "pip install milvus-lite==2.5.1",
    r"timm": "pip install timm, and the torchvision for this torch",
    r"pyserini|extra \[\w+\]": "make install",
}

linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")


def crossed(*values: Iterable[Any]) -> list[tuple[Any, ...]]:
    """All combinations of parameters in `make torture`, else half of them, with every value."""
    places = product(*(list(enumerate(one)) for one in values))
    wanted = (one for one in places if EVERY or sum(place for place, _ in one) % 2 == 0)
    return [tuple(value for _, value in one) for one in wanted]


def find(need: str) -> str:
    """What satisfies a need, mostly a path; the test is skipped if nothing does."""
    found = NEEDS[need].find() if need in NEEDS else program(need)
    if found is None or BARE:
        missing(need)
    return found


def package(name: str, extra: str) -> Any:
    """Import a package of an extra; the test or file is skipped without it."""
    return pytest.importorskip(name, reason=f"needs extra [{extra}]", exc_type=ImportError)


def missing(need: str) -> NoReturn:
    """Skip a test because the machine lacks something."""
    pytest.skip(f"needs {need}", allow_module_level=True)


def remedy(reason: str) -> str:
    """How to run the tests that were skipped for a reason."""
    need = reason.removeprefix("needs ")
    if need == reason:
        return "nothing to install"
    if need in NEEDS:
        return NEEDS[need].remedy
    found = (text for pattern, text in OTHERS.items() if re.search(pattern, need))
    return next(found, f"apt-get install {need}")
