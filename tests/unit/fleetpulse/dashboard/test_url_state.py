"""The state of a page as the query part of its address."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetpulse.dashboard.time_range import RangeSpec
from fleetpulse.dashboard.url_state import CHARS_MAX, VALUE_CHARS_MAX, UrlState, parse

FILTERS = ("model", "tenant")
OPTIONS = {"metric": "busy", "q": ""}
NAMES = st.text(max_size=VALUE_CHARS_MAX)


def test_an_empty_address_is_the_last_hour_of_everything() -> None:
    """Defaults stand where nothing is said."""
    assert parse({}, FILTERS, OPTIONS) == (UrlState(RangeSpec("1h"), False, {"model": "", "tenant": ""}, OPTIONS), ())


def test_defaults_are_left_out_of_an_address() -> None:
    """A short link says only what is out of the ordinary."""
    state, _ = parse({"model": "m&1", "live": "1", "metric": "busy"}, FILTERS, OPTIONS)

    assert state.query(OPTIONS) == "live=1&model=m%261"


@given(model=NAMES, tenant=NAMES, metric=NAMES, last=st.sampled_from(["15m", "1h", "7d", None]), live=st.booleans())
def test_a_link_brings_everything_back(model: str, tenant: str, metric: str, last: str | None, live: bool) -> None:
    """Whatever the names hold."""
    spec = RangeSpec(last) if last else RangeSpec(None, 1_000_000, 9_000_000)
    state = UrlState(spec, live, {"model": model, "tenant": tenant}, {"metric": metric, "q": ""})

    address = dict(parse_qsl(state.query({"q": ""}), keep_blank_values=True))

    assert parse(address, FILTERS, {"metric": "", "q": ""}) == (state, ())


@pytest.mark.parametrize(
    "query",
    [{"last": "1 hour"}, {"from": "x", "to": "y"}, {"from": "2026-01-01"}, {"from": "9", "to": "8"}, {"last": "'--"}],
)
def test_a_range_that_cannot_be_read_is_the_last_hour_and_said(query: dict[str, str]) -> None:
    """A bad link never fails a page."""
    state, notices = parse(query)

    assert state.range_spec == RangeSpec("1h")
    assert len(notices) == 1
    assert "can't be read" in notices[0]


def test_a_value_that_is_too_long_is_left_out_and_said() -> None:
    """One character more than any name may have."""
    state, notices = parse({"model": "m" * (VALUE_CHARS_MAX + 1), "tenant": "t" * VALUE_CHARS_MAX}, FILTERS)

    assert state.filters == {"model": "", "tenant": "t" * VALUE_CHARS_MAX}
    assert notices == (f"model was left out: longer than {VALUE_CHARS_MAX} characters",)


def test_what_a_page_does_not_know_is_ignored() -> None:
    """Only declared filters and options are read."""
    assert parse({"host": "h", "__proto__": "x"}, FILTERS, OPTIONS)[0] == parse({}, FILTERS, OPTIONS)[0]


def test_other_values_replace_those_named() -> None:
    """And are cut to the longest name; an unknown one is a mistake of the page."""
    state, _ = parse({"model": "a"}, FILTERS, OPTIONS)

    assert state.with_values(tenant="t" * 999, q="x").filters == {"model": "a", "tenant": "t" * VALUE_CHARS_MAX}
    with pytest.raises(KeyError, match="host"):
        state.with_values(host="h")


def test_an_option_of_several_names_may_be_longer() -> None:
    """Whatever their letters: with each at its longest, an address is one that the guard takes."""
    given = "\N{CJK UNIFIED IDEOGRAPH-4E00}" * CHARS_MAX["given"]
    state, notices = parse({"given": given}, FILTERS, {"given": ""})

    assert (state.options, notices) == ({"given": given}, ())
    assert state.with_values(given=given + "x").options == {"given": given}
    assert len(state.query()) < 8_192
    _, notices = parse({"given": given + "x"}, FILTERS, {"given": ""})
    assert notices == (f"given was left out: longer than {CHARS_MAX['given']} characters",)
