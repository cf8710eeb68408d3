"""Each client has a key of its own, which the file of the server knows."""

from pathlib import Path

from eval.bench.serving.access import Access
from server.security.keys import id_of, read_keys


def test_keys_of_clients_and_of_the_monitor(tmp_path: Path) -> None:
    access = Access.create(tmp_path / "keys.json", 3)
    stored = {key.id: key.scope for key in read_keys(access.file)}
    assert [stored.pop(id_of(text)) for text in access.search] == ["search"] * 3
    assert stored == {id_of(access.metrics): "metrics"}
