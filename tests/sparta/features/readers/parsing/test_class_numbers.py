import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.readers.parsing.class_numbers import Classes


@pytest.mark.parametrize("value", [np.nan, -0.1, 1.1, np.inf])
def test_an_odd_confidence_is_named(value: float) -> None:
    ids, good, bad = np.zeros(2, int), np.array([0.0, 1.0]), np.array([0.5, value])
    with pytest.raises(InputError, match=r"^f: objects_conf, row 2: expected 0 to 1, found"):
        Classes("f", ids, bad)
    with pytest.raises(InputError, match=r"^f: attrs_conf, row 2: expected 0 to 1, found"):
        Classes("f", ids, good, ids, bad)
    Classes("f", ids, good, ids, good)
