"""Dates and the periods they name."""

from __future__ import annotations

from datetime import datetime

import pytest

from indexer.fields.dates import microseconds, period, stored_date


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2024", datetime(2024, 1, 1), datetime(2025, 1, 1)),
        ("2024-02", datetime(2024, 2, 1), datetime(2024, 3, 1)),
        ("2024-12", datetime(2024, 12, 1), datetime(2025, 1, 1)),
        ("2024-02-29", datetime(2024, 2, 29), datetime(2024, 3, 1)),
        ("2024-02-29T23", datetime(2024, 2, 29, 23), datetime(2024, 3, 1)),
        ("2024-02-29 23:59", datetime(2024, 2, 29, 23, 59), datetime(2024, 3, 1)),
        ("2024-02-29T23:59:59Z", datetime(2024, 2, 29, 23, 59, 59), datetime(2024, 3, 1)),
        ("2024-02-29T12:00+02:00", datetime(2024, 2, 29, 12), datetime(2024, 2, 29, 12, 1)),
        (
            "1969-07-20T20:17:40.5-0500",
            datetime(1969, 7, 20, 20, 17, 40, 500_000),
            datetime(1969, 7, 20, 20, 17, 40, 600_000),
        ),
        (
            "2024-01-01T00:00:00.1234567",
            datetime(2024, 1, 1, 0, 0, 0, 123_456),
            datetime(2024, 1, 1, 0, 0, 0, 123_457),
        ),
    ],
)
def test_a_date_names_a_period(text: str, start: datetime, end: datetime) -> None:
    assert period(text) == (microseconds(start), microseconds(end))


@pytest.mark.parametrize(
    "text",
    ["", "24", "2024-", "2024-13", "2023-02-29", "0000", "2024-01-01T25", "2024-06-1", "٢٠٢٤"],
)
def test_what_is_no_date(text: str) -> None:
    assert period(text) is None


@pytest.mark.parametrize("text", ["9999", "9999-12", "9999-12-31", "9999-12-31T23:59:59"])
def test_time_ends(text: str) -> None:
    found = period(text)
    assert found is not None and found.end == microseconds(datetime.max) + 1


def test_stored_dates_have_a_day() -> None:
    assert stored_date("2024") is stored_date("2024-06") is stored_date("12-34-5678") is None
    assert stored_date("2024-06-01") == microseconds(datetime(2024, 6, 1))
