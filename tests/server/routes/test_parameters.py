"""Parameters that a route reads by itself."""

from urllib.parse import parse_qsl

from hypothesis import given
from hypothesis import strategies as st

from server.routes.parameters import pairs_of


@given(st.binary() | st.text("ab=&+;%20C3A9é", max_size=30).map(str.encode))
def test_names_and_values_are_those_of_the_standard_library(query: bytes) -> None:
    assert pairs_of(query) == parse_qsl(query.decode("latin-1"), keep_blank_values=True)
