"""Photos with captions among stored images whose ids are written otherwise."""

from itertools import product

import pytest

from sparta.captions.read import CaptionedPhoto
from sparta.captions.record import as_stored, stored_ids
from sparta.errors import InputError

# Around a caption, and in place of one: blanks, also those that no keyboard has, and what shows
# nothing.


# ---- stored under other ids ----------------------------------------------------------------------

COCO = ["{number}", "{number}.jpg", "{number:012}", "{number:012}.jpg", "{number:012}.png"]
COCO += ["val2017/{number:012}.jpg", "COCO_val2014_{number:012}", "COCO_val2014_{number:012}.jpg"]
COCO += ["val2014/COCO_val2014_{number:012}.jpg", "images\\{number:012}.JPG"]
NUMBERS = (391895, 42, 581929)


@pytest.mark.parametrize(("captions", "store"), [*product(COCO, COCO)])
def test_every_form_of_cocos_ids_is_found_in_every_other(
    captions: str, store: str, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    wanted = [captions.format(number=number) for number in NUMBERS]
    stored = [store.format(number=number) for number in reversed((7, *NUMBERS))]
    found = stored_ids([*wanted, captions.format(number=1)], stored, request.node.name)
    assert found == dict(zip(wanted, stored[::-1][1:], strict=True))
    told = [f"{request.node.name}: captions and images are matched by "] * (captions != store)
    assert [message[: len(told[0])] for message in caplog.messages] == told


@pytest.mark.parametrize(
    ("captions", "stored", "form"),
    [
        ("beach/a.jpg", "beach/a.png", "path without suffix"),
        ("./beach/a.jpg", "beach/a.jpg", "path without suffix"),
        ("beach/a.jpg", "a.jpg", "file name"),
        ("1000268201_693b08cb0e", "flickr8k/1000268201_693b08cb0e.jpg", "file name without suffix"),
        ("COCO_test2015_000000000001.jpg", "1", "number"),
    ],
)
def test_the_surest_form_that_finds_a_photo_is_told_once(
    captions: str, stored: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    photo = CaptionedPhoto(captions, "train", ("a dog",))
    where = f"store of {captions} and {stored}"
    for _ in range(2):
        (found,) = as_stored([photo], {stored}, where)
        assert (found.image_id, found.captions) == (stored, ("a dog",))
    assert caplog.messages == [f"{where}: captions and images are matched by {form}"]


def test_ids_as_they_are_come_first(caplog: pytest.LogCaptureFixture) -> None:
    """A photo that is not stored is not taken for another one of the same file name."""
    stored = ["391895.jpg", "000000391895.jpg", "party/1.jpg"]
    assert stored_ids(["391895.jpg", "beach/1.jpg"], stored, "x") == {"391895.jpg": "391895.jpg"}
    assert caplog.messages == []
    assert stored_ids([], stored, "x") == {}


@pytest.mark.parametrize(
    ("captions", "stored"),
    [
        (["COCO_val2014_000000391895.jpg"], ["391895.jpg", "000000391895.jpg"]),
        (["a"], ["a.jpg", "a.png"]),
        (["beach/1.jpg", "party/1.jpg"], ["1.jpg"]),
    ],
)
def test_an_ambiguous_form_is_refused(captions: list[str], stored: list[str]) -> None:
    with pytest.raises(InputError, match="store: it is unclear which photo is which: by ") as error:
        stored_ids(captions, stored, "store")
    assert all(repr(image_id) in str(error.value) for image_id in [*captions, *stored])


def test_other_photos_are_not_taken_for_one_another() -> None:
    """Digits at the end of a name are no number of COCO's."""
    assert stored_ids(["beach1.jpg", "a"], ["party1.jpg", "ab"], "store") == {}
    assert stored_ids(["a"], [], "store") == {}
