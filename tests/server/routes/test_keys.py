"""The list of keys."""

from __future__ import annotations

from pathlib import Path

from server.backends import Backend
from tests.server.apps import app_of, client_of, make_key
from tests.server.fake import FakeSearcher


def test_an_admin_sees_all_keys_but_no_hashes(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    admin, _ = make_key(file, "admin"), make_key(file)
    client = client_of(app_of(Backend("sparta", FakeSearcher()), keys=file))
    found = client.get("/v1/keys", headers={"X-API-Key": admin}).json()["keys"]
    assert [(key["name"], key["scope"]) for key in found] == [
        ("admin key", "admin"),
        ("search key", "search"),
    ]
    assert set(found[0]) == {"id", "name", "scope", "created", "expires"}
