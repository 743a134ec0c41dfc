"""Tables of terminals: words and numbers stay whole, names are shortened before columns go, and what went is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from fleetpulse.commands.output import table
from fleetpulse.commands.table import Column, FittedTable, Need, widths_of
from tests.unit.fleetpulse.whole_words import broken, drawn


def made(headings: str, *rows: tuple[object, ...], right: str = "", least: tuple[str, ...] = ()) -> FittedTable:
    return table("T", headings.split(), rows, right=right.split(), least=least)


def test_what_fits_is_as_wide_as_it_needs_to_be() -> None:
    """Two blanks between columns, numbers to the right, no frame."""
    lines = drawn(made("name requests", ("llama", 1_234), ("qwen", 5))).splitlines()

    assert [line.rstrip() for line in lines] == [
        "T", "name   requests", "───────────────", "llama     1,234", "qwen          5",
    ]  # fmt: skip


def test_a_title_with_control_characters_shows_them() -> None:
    """A summary of an alert holds labels of anybody's events: a terminal must not obey them."""
    drawn_title = drawn(table("e\x1b[2J\x9b is slow", ["a"], [(1,)])).splitlines()[0]

    assert drawn_title.rstrip() == r"e\x1b[2J\x9b is slow"


def test_texts_are_wrapped_between_words_before_anything_else() -> None:
    """A sentence takes the lines it needs, and rows of several lines stand apart."""
    lines = drawn(made("host what", ("gpu-001", "is lost and did not come back"), ("b", "hot")), 26).splitlines()

    assert [line.rstrip() for line in lines[3:]] == [
        "gpu-001  is lost and did", "         not come back", "", "b        hot",
    ]  # fmt: skip


def test_long_names_are_shortened_before_a_column_goes() -> None:
    """The longest name ends in an ellipsis; numbers and short words stay as they are."""
    name = "meta-llama/Llama-3.3-70B-Instruct"
    text = drawn(made("model requests at", (name, 1_234_567, "2026-01-02T03:04:05Z")), 53)

    assert "meta-llama/Llama-3.…  1,234,567  2026-01-02T03:04:05Z" in text
    assert "no room" not in text


def test_columns_go_in_the_order_given_then_from_the_right_and_are_named() -> None:
    """The first column stays to the last."""
    wide = made("a b c d", ("name", 11_111_111, 22_222_222, 33_333_333), least=("b",))

    ends = [" ".join(drawn(wide, width).split()).partition(" no room in ")[2] for width in (40, 30, 20, 8)]

    assert ends == ["", "30 columns for: b", "20 columns for: b, d", "8 columns for: b, c, d"]


def test_headings_have_blanks_for_underscores_only_where_they_must_be_wrapped() -> None:
    """A name of a column can be copied where there is room for it."""
    answer = made("model memory_used_max_gb", ("m", 1.5))

    assert "memory_used_max_gb" in drawn(answer, 40)
    assert "memory" in drawn(answer, 15).split()


def test_a_list_of_names_and_values_has_no_heading() -> None:
    """No rule under nothing."""
    assert drawn(table("", ("", ""), [("rule", "gpu_hot")])).split() == ["rule", "gpu_hot"]


def test_a_text_that_is_not_wrapped_is_shortened_as_a_whole() -> None:
    """One row is one line."""
    row = [Text("NVIDIA H100 80GB HBM3 SXM5 700W"), Text("50")]
    lines = drawn(FittedTable("", [Column("type", wrapped=False), Column("util", right=True)], [row]), 30).splitlines()

    assert [line.rstrip() for line in lines[2:]] == ["NVIDIA H100 80GB HBM3 S…    50"]


_WORDS = st.text(st.sampled_from("abcdefghijk0123456789_./-"), min_size=1, max_size=40)
_CELLS = st.one_of(
    st.none(),
    st.integers(-(10**12), 10**12),
    st.floats(-1e9, 1e9),
    st.lists(_WORDS, min_size=1, max_size=6).map(" ".join),
)


@given(st.integers(1, 12).flatmap(lambda n: st.lists(st.tuples(*[_CELLS] * n), min_size=1, max_size=4)))
def test_no_word_and_no_number_breaks_whatever_the_table(rows: list[tuple[object, ...]]) -> None:
    """Any values in any number of columns: each shown whole, or as a name with an ellipsis, or its column is named."""
    assert broken(table("title of it", [f"column_{at}" for at in range(len(rows[0]))], rows)) == []


@given(st.lists(st.tuples(*[st.integers(1, 40)] * 3).map(sorted), min_size=1, max_size=8), st.integers(1, 200))
def test_widths_fit_and_no_column_is_narrower_than_its_words(sizes: list[list[int]], room: int) -> None:
    """Whole words where they fit, shortened names where they must be, None where nothing fits."""
    needs = [Need(line, word, short) for short, word, line in sizes]

    widths = widths_of(needs, room)

    if widths is None:
        assert sum(need.short for need in needs) > room
        return
    assert sum(widths) <= room
    words_fit = sum(need.word for need in needs) <= room
    least = [need.word if words_fit else need.short for need in needs]
    assert all(low <= width <= need.line for low, width, need in zip(least, widths, needs, strict=True))


@pytest.mark.parametrize("width", [80, 18])
def test_an_amount_and_its_unit_stay_on_one_line(width: int) -> None:
    """A column of amounts is as wide as its longest."""
    assert "12.3 %" in drawn(made("what share", ("idle GPUs of all hosts", "12.3 %"), right="share"), width)
