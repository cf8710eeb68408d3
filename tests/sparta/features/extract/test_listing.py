import os
from pathlib import Path

from sparta.features.extract.listing import file_stamps, links_outside, listing_hash


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


def test_links_that_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (tmp_path / "alias").symlink_to(folder)
    (tmp_path / "a.jpg").touch()
    for name, target in {
        "out.jpg": tmp_path / "a.jpg",
        "gone.jpg": tmp_path / "nowhere",
        "in.jpg": folder / "file.jpg",
        "relative.jpg": Path("file.jpg"),
    }.items():
        (folder / name).symlink_to(target)
    (folder / "file.jpg").touch()
    ids = [path.name for path in folder.iterdir()]
    assert links_outside(folder, ids) == links_outside(tmp_path / "alias", ids) == 2
