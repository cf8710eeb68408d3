"""What is said about damaged columns."""

from pathlib import Path

from indexer.parts import columns_remedy


def test_only_columns_that_can_be_made_again_may_be_deleted(tmp_path: Path) -> None:
    assert columns_remedy(tmp_path / "columns").startswith(f"delete {tmp_path / 'columns'}")
    (tmp_path / "live").mkdir()
    for folder in ("columns", "live/segment-000001"):
        assert "delete" not in columns_remedy(tmp_path / folder)
