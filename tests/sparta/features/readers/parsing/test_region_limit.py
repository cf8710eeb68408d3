import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.readers.parsing.region_limit import RegionLimit

CONFIDENCES = np.array([0.5, 0.9, 0.5, 1.0], np.float32)


def test_the_first_regions_are_those_of_the_file() -> None:
    assert RegionLimit().rows(3, None, "x").tolist() == [0, 1, 2]
    assert RegionLimit(2).rows(4, CONFIDENCES, "x").tolist() == [0, 1]
    assert RegionLimit(9).rows(2, None, "x").tolist() == [0, 1]


def test_the_surest_regions_come_first_and_equal_ones_stay_in_order() -> None:
    assert RegionLimit(by="confident").rows(4, CONFIDENCES, "x").tolist() == [3, 1, 0, 2]
    assert RegionLimit(3, "confident").rows(4, CONFIDENCES, "x").tolist() == [3, 1, 0]


def test_only_a_choice_is_recorded() -> None:
    assert RegionLimit().extra == {}
    assert RegionLimit(50).extra == {"regions": 50, "keep": "first"}
    assert RegionLimit(by="confident").extra == {"regions": None, "keep": "confident"}


@pytest.mark.parametrize("confidences", [None, CONFIDENCES[:3], np.array([1, np.nan, 0, 0])])
def test_confidences_must_be_there(confidences: np.ndarray | None) -> None:
    with pytest.raises(InputError, match=r"^f\.tsv, line 7: confidence: "):
        RegionLimit(by="confident").rows(4, confidences, "f.tsv, line 7")
