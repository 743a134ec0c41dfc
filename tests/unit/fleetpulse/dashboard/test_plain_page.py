"""Pages without scripts: the one for addresses that are none."""

from __future__ import annotations

from fleetpulse.dashboard.plain_page import PATH_CHARS_MAX, not_found


def test_an_unknown_address_is_named_with_the_way_back() -> None:
    """The address as text, and a link to each page."""
    text = not_found("/flet", {"/fleet": "Fleet", "/sql": "SQL"})

    assert "no page <code>/flet</code>" in text
    assert '<a href="/fleet">Fleet</a><a href="/sql">SQL</a>' in text


def test_an_address_of_anybody_is_text_and_short() -> None:
    """Markup is escaped, and what is long is cut."""
    text = not_found("/<script>alert(1)</script>" + "x" * 1_000, {})

    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert text.count("x") < 1.5 * PATH_CHARS_MAX
