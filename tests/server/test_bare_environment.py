"""Commands and servers under systemd, cron and containers: as any user, without HOME or locale."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from server.security.keys import new_key, read_keys, write_keys
from tests.documents import ROOT
from tests.needs import find, missing
from tests.proxies import free_port
from tests.server.apps import make_key

NOBODY = 12345  # a user without an entry in passwd
UNIT = (ROOT / "docker/visualsparta.service").read_text()
PATH = {"PATH": "/usr/bin:/bin"}
CRON = PATH | {"SHELL": "/bin/sh", "LOGNAME": "nobody", "LANG": "C"}


def as_nobody(*command: object) -> list[str]:
    """A command line that runs as a user who has no name, but may read this checkout."""
    line = ["unshare", "--user", f"--map-user={NOBODY}"]
    if subprocess.run([*line, "true"], check=False).returncode:
        missing("user namespaces")
    return [*line, *map(str, command)]


@pytest.fixture(params=["no HOME", "read-only HOME", "HOME that is absent"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    if request.param == "no HOME":
        return PATH
    home = tmp_path / "home"
    if request.param == "read-only HOME":
        home.mkdir(mode=0o555)
    return CRON | {"HOME": str(home if home.exists() else home / "absent")}


@pytest.mark.needs("unshare", "sh")
def test_no_command_needs_home_name_terminal_or_locale(
    environment: dict[str, str], drawings: Path, tmp_path: Path
) -> None:
    shutil.copytree(drawings, tmp_path / "x")
    photos = ROOT / "sparta/visualsparta/shipped/sample/photos"
    lines = (
        "keys list",
        "info x",
        "verify x",
        "search x red",
        "delete x garden/one.png",
        "snapshot x copy",
        "serve x --check",
        f"index {photos} --model sample --out y",
        f"sync y {photos}",
    )
    script = "\n".join(
        f"{sys.executable} -m sparta {line} < /dev/null || echo {line}" for line in lines
    )
    run = subprocess.run(
        as_nobody("sh", "-c", script),
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in run.stderr + run.stdout
    assert [line for line in lines if line in run.stdout.splitlines()] == [], run.stderr


@pytest.mark.needs("unshare", "sh")
def test_where_no_key_can_be_kept_is_said_in_one_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    command = as_nobody(sys.executable, "-m", "sparta", "keys", "create", "a")
    run = subprocess.run(
        command,
        env=CRON | {"HOME": str(home)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert re.fullmatch(
        rf"error: {home}/\.config/.* cannot be written \(.*: Permission denied\).*\n", run.stderr
    )


# ---- the unit ------------------------------------------------------------------------------------


def values(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


@pytest.fixture
def unit(drawings: Path, tmp_path: Path) -> tuple[list[str], dict[str, str], Path]:
    """The command and the environment of the unit, with other folders; and the file of keys."""
    keys, config = tmp_path / "keys.json", tmp_path / "serve.yaml"
    config.write_text(f"index: {drawings}\nport: {free_port()}\n")
    names = {
        "/opt/visualsparta/bin/sparta": f"{sys.executable} -m sparta",
        "/etc/visualsparta/keys.json": str(keys),
        "/etc/visualsparta/serve.yaml": str(config),
        "%C": str(tmp_path),
    }
    [command], environment = values("ExecStart"), "\n".join(values("Environment"))
    for name, own in names.items():
        command, environment = command.replace(name, own), environment.replace(name, own)
    assert str(keys) in environment
    found = dict(line.split("=", 1) for line in environment.splitlines())
    return command.split(), PATH | found, keys


@pytest.mark.needs("unshare", "sh")
def test_the_unit_serves_with_keys_as_any_user(
    unit: tuple[list[str], dict[str, str], Path], tmp_path: Path
) -> None:
    command, environment, keys = unit
    key = make_key(keys)
    [port] = re.findall(r"port: (\d+)", (tmp_path / "serve.yaml").read_text())
    process = subprocess.Popen(
        as_nobody(*command), env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    try:
        address = f"http://127.0.0.1:{port}/v1/search?q=red"
        for _ in range(600):
            try:
                assert httpx.get(address).status_code == 401
                break
            except httpx.TransportError:
                assert process.poll() is None
                time.sleep(0.1)
        assert httpx.get(address, headers={"X-API-Key": key}).status_code == 200
        process.send_signal(signal.SIGUSR1)
        assert httpx.get(address, headers={"X-API-Key": key}).status_code == 200
    finally:
        process.terminate()
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in printed


@pytest.mark.needs("unshare", "sh")
def test_a_wrong_setting_ends_in_one_line_and_is_not_tried_for_ever(
    unit: tuple[list[str], dict[str, str], Path],
) -> None:
    command, environment, keys = unit
    run = subprocess.run(
        as_nobody(*command), env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr.startswith(f"error: {keys}: there is no such file of keys; create")
    [interval], [burst], [pause] = (
        values(name) for name in ("StartLimitIntervalSec", "StartLimitBurst", "RestartSec")
    )
    assert interval == "5min"
    assert int(burst) * (int(pause) + 20) < 300  # seconds: a start fails within twenty


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """As /etc/visualsparta: of root and a group, which its files inherit."""
    find("root")
    folder = Path(tempfile.mkdtemp())
    os.chown(folder, 0, NOBODY)
    folder.chmod(0o2750)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("inherited", [True, False])
def test_keys_stay_readable_by_their_group(shared_folder: Path, inherited: bool) -> None:
    """As the unit says: once given to the group, `sparta keys` leaves them to it."""
    keys = shared_folder / "keys.json"
    write_keys(keys, [])
    assert keys.stat().st_mode & 0o777 == 0o600
    keys.chmod(0o640)
    if not inherited:
        shared_folder.chmod(0o750)
    write_keys(keys, [new_key("phone", "search")[0]])
    assert (keys.stat().st_mode & 0o777, keys.stat().st_gid) == (0o640, NOBODY)
    if (child := os.fork()) == 0:
        os.setgroups([NOBODY])
        os.setgid(NOBODY + 1)
        os.setuid(NOBODY + 1)
        os._exit(len(read_keys(keys)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
