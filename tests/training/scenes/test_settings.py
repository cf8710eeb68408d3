import pytest

from sparta.errors import InputError
from training.scenes.settings import CorpusSettings, parse_splits


@pytest.mark.parametrize("text", ["", "train=0.5", "train=x,val=y", "train=0.5,=0.5", "a=2,b=-1"])
def test_shares_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--split"):
        parse_splits(text)


def test_splits_follow_the_shares() -> None:
    settings = CorpusSettings(10, 0, parse_splits("train=0.7, dev=0.2, val=0.1"))
    assert [settings.split(i) for i in range(10)] == ["train"] * 7 + ["dev"] * 2 + ["val"]
