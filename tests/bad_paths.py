"""Paths in a folder of photos that cannot be read, of every kind."""

from __future__ import annotations

import os
import socket
from pathlib import Path

NOT_UTF8 = b"caf\xe9.jpg"
LONG = "d" * 200


def add_bad_paths(folder: Path) -> dict[str, str]:
    """Make them, and links to folders, which are not followed; the reason of each is returned."""
    for name, target in {
        "self.jpg": "self.jpg",
        "ring-a.jpg": "ring-b.jpg",
        "ring-b.jpg": "ring-a.jpg",
        "dangling.jpg": "nowhere.jpg",
        "long-target.jpg": "n" * 300 + ".jpg",
        "device.jpg": "/dev/zero",
        "parent.jpg": "..",
        "parent": ".",
    }.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.jpg")
    (folder / "folder.jpg").mkdir()
    (folder / os.fsdecode(NOT_UTF8)).touch()
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)  # the path of a socket must be short, and of the last folder is too long
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("socket.jpg")
        for _ in range(22):
            os.mkdir(LONG)  # noqa: PTH102
            os.chdir(LONG)
        Path("deep.jpg").touch()
    finally:
        os.fchdir(before)
        os.close(before)
    circles = ("self.jpg", "ring-a.jpg", "ring-b.jpg")
    reasons = dict.fromkeys(circles, "Too many levels of symbolic links")
    reasons |= dict.fromkeys(("device.jpg", "pipe.jpg", "socket.jpg"), "not a regular file")
    reasons |= dict.fromkeys(("folder.jpg", "parent.jpg"), "a folder, not a photo")
    reasons |= {
        "dangling.jpg": "No such file or directory",
        "long-target.jpg": "File name too long",
        "caf\\xe9.jpg": "the file name is not UTF-8",
    }
    deep = LONG
    while len(f"{folder}/{deep}") < 4096:
        deep += f"/{LONG}"
    return reasons | {deep: "File name too long"}
