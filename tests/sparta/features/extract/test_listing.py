import os
from pathlib import Path

from sparta.features.extract.listing import file_stamps, listing_hash


def test_stamps_follow_size_and_time_and_the_hash_size_alone(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"123")
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere")
    os.utime(tmp_path / "a.jpg", ns=(5, 7))
    ids = ["a.jpg", "gone.jpg"]
    first = file_stamps(tmp_path, ids)
    assert first == {"a.jpg": [3, 7], "gone.jpg": [-1, -1]}
    os.utime(tmp_path / "a.jpg", ns=(5, 8))
    later = file_stamps(tmp_path, ids)
    assert later["a.jpg"] == [3, 8]
    assert listing_hash(later) == listing_hash(first)
    (tmp_path / "a.jpg").write_bytes(b"1234")
    assert listing_hash(file_stamps(tmp_path, ids)) != listing_hash(first)
