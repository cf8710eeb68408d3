"""What an image id may be."""

import pytest

from sparta.addresses import LONGEST, check_id, id_problem
from sparta.errors import InputError

DOTS = ["..", ".", "a/../b.jpg", "a/./b.jpg", "../b.jpg", "a/..", "/b.jpg", "a//b.jpg", "a/", "/"]


@pytest.mark.parametrize("image_id", [*DOTS, "", "a\0b", "\ud800", "é" * LONGEST])
def test_what_would_reach_another_image_is_refused(image_id: str) -> None:
    assert id_problem(image_id)
    with pytest.raises(InputError, match="the image id"):
        check_id(image_id)


@pytest.mark.parametrize(
    "image_id",
    ["...", ".hidden/a..b.jpg", "..a", "a\\..\\b", "%2e%2e/a", "a b\n?#.jpg", "C:x", "é/日本.jpg"],
)
def test_all_else_means_itself(image_id: str) -> None:
    assert id_problem(image_id) is None
