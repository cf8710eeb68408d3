"""`sparta serve --ray`: what it refuses, and a cluster of its own."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from server.cluster import deploy
from server.cluster.deploy import serve_on
from server.settings import ServerSettings
from sparta.errors import InputError
from tests.served_cluster import free_port
from tests.server.apps import settings


def test_what_cannot_be_served_on_a_cluster() -> None:
    with pytest.raises(InputError, match=r"^--workers is not for --ray: give --replicas$"):
        serve_on("local", settings(workers=2), 1)
    with pytest.raises(InputError, match=r"^--host 0.0.0.0 lets other machines in"):
        serve_on("local", settings(host="0.0.0.0"), 1)


def test_no_cluster_answers() -> None:
    pytest.importorskip("ray", reason="extra [ray] is not installed")
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(InputError, match=rf"^--ray {address}: no cluster answers there"):
        serve_on(address, settings(index=Path("nothing")), 1)


@pytest.mark.parametrize("address", ["local", "10.0.0.1:6379"])
def test_a_cluster_of_others_goes_on(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed: list[tuple[ServerSettings, int]] = []

    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deploy, "connected", lambda *_, **__: nullcontext())
    monkeypatch.setattr(deploy, "deploy", lambda *given: deployed.append(given))
    monkeypatch.setattr("server.cluster.deploy.Event.wait", stop)
    monkeypatch.setattr("server.cluster.deploy.signal.signal", lambda *_: None)
    chosen = settings(index=Path("divided"), port=8123)
    deploy.serve_on(address, chosen, 3)
    assert deployed == [(chosen, 3)]
    printed = capsys.readouterr().err
    assert "Serving divided at http://127.0.0.1:8123 on every machine" in printed
    assert ("Stop with Ctrl+C." in printed) == (address == "local")
    assert ("It stays when this command ends" in printed) == (address != "local")
