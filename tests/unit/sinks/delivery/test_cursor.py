"""How far targets are: nothing unfinished is passed, and metadata survives what people do to groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.delivery.cursor import METADATA_CHARACTERS_MAX, NEW, Cursor, Progress, cursors_of, encode


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40), st.randoms(use_true_random=False))
def test_the_cursor_is_the_oldest_unfinished(records: list[tuple[bool, bool]], rng: object) -> None:
    """Whatever is finished in whatever order; behind the last record when nothing is left."""
    progress = Progress(10)
    wanted = [10 + n for n, (wants, _) in enumerate(records) if wants]
    for n, (wants, _) in enumerate(records):
        progress.read(10 + n)
        if wants:
            progress.begin(10 + n)
    finished = [10 + n for n, (wants, ends) in enumerate(records) if wants and ends]
    rng.shuffle(finished)  # type: ignore[attr-defined]
    for offset in finished:
        progress.finish(offset)

    left = [offset for offset in wanted if offset not in finished]
    assert progress.offset == (left[0] if left else 10 + len(records))


def test_places_survive_the_metadata() -> None:
    """By name; a target that is not named is new and begins at the end."""
    cursors = {"b": Cursor(7, 100), "a": Cursor(3, NEW)}

    assert encode(cursors) == '{"a":[3,-1],"b":[7,100]}'
    assert cursors_of(("a", "b", "c"), 3, encode(cursors), 0, 9) == {**cursors, "c": Cursor(9, NEW)}


@pytest.mark.parametrize(
    ("committed", "metadata", "expected"),
    [
        pytest.param(None, "", Cursor(9, NEW), id="a new group"),
        pytest.param(4, "", Cursor(4, 0), id="an offset that a person set"),
        pytest.param(1, "", Cursor(2, 0), id="before what is left of the log"),
        pytest.param(4, "[1]", Cursor(4, 0), id="metadata of somebody else"),
        pytest.param(4, '{"a":7}', Cursor(4, 0), id="metadata of another form"),
        pytest.param(10, '{"a":[10,5]}', Cursor(9, NEW), id="behind the end: another log"),
        pytest.param(9, '{"a":[9,5]}', Cursor(9, 5), id="at the end"),
    ],
)
def test_where_a_target_continues(committed: int | None, metadata: str, expected: Cursor) -> None:
    """The log holds [2, 9)."""
    assert cursors_of(("a",), committed, metadata, 2, 9) == {"a": expected}


def test_a_target_that_was_behind_the_end_is_new() -> None:
    """The log ends before what it was done with: waiting for its end would not end, and hold up the others."""
    cursors = {"a": Cursor(4, 50), "b": Cursor(5_000, 60, ("0" * 16,), ("1" * 16,)), "c": Cursor(9, 70)}

    found = cursors_of(("a", "b", "c"), 4, encode(cursors), 2, 9)

    assert found == {**cursors, "b": Cursor(9, NEW)}


def test_metadata_of_the_most_targets_fits_a_broker() -> None:
    """Sixteen of the longest names at the greatest offsets."""
    cursors = {f"{n:032}": Cursor(2**63 - 1, 2**63 - 1) for n in range(16)}

    assert len(encode(cursors)) < METADATA_CHARACTERS_MAX


def test_alerts_that_were_withheld_are_kept_behind_those_beyond_the_filter() -> None:
    """Told apart by a mark that other releases take for no alert's name."""
    names = tuple(f"{n:016x}" for n in range(1_000))
    cursors = {"a": Cursor(1, 2, names[:2], names[2:4])}

    assert encode(cursors) == f'{{"a":[1,2,["!{names[2]}","!{names[3]}","{names[0]}","{names[1]}"]]}}'
    assert cursors_of(("a",), 1, encode(cursors), 0, 9) == cursors
    full = {"a": Cursor(1, 2, names[:150], names[150:])}
    (kept,) = cursors_of(("a",), 1, encode(full), 0, 9).values()
    assert len(encode(full)) <= METADATA_CHARACTERS_MAX
    assert (kept.unmatched, kept.withheld) == (names[:150], names[-len(kept.withheld) :])
    assert len(kept.withheld) > 50


def test_alerts_beyond_the_filter_are_kept_as_far_as_there_is_room() -> None:
    """The newest of it, in equal shares; of few nothing is lost."""
    names = tuple(f"{n:016x}" for n in range(1_000))
    few = {"a": Cursor(1, 2, names[:3]), "b": Cursor(3, NEW)}
    many = {f"{n:032}": Cursor(2**63 - 1, 2**63 - 1, names) for n in range(16)}

    assert encode(few) == f'{{"a":[1,2,["{names[0]}","{names[1]}","{names[2]}"]],"b":[3,-1]}}'
    assert cursors_of(("a", "b"), 1, encode(few), 0, 9) == few
    assert METADATA_CHARACTERS_MAX - 500 < len(encode(many)) <= METADATA_CHARACTERS_MAX
    kept = cursors_of(tuple(many), 1, encode(many), 0, 2**63)
    assert {one.unmatched for one in kept.values()} == {names[-9:]}
    alone = {"a": Cursor(1, 2, names)}
    assert METADATA_CHARACTERS_MAX - 19 < len(encode(alone)) <= METADATA_CHARACTERS_MAX


FILTERS = {"a": "0123abcd", "b": "00000000"}


def test_a_target_whose_filter_changed_is_new_to_what_is_open() -> None:
    """It continues where it was, and keeps what it was notified of beyond its filter; of others nothing changes."""
    names = ("0" * 16, "1" * 16)
    cursors = {"a": Cursor(3, 50, names[:1], names[1:]), "b": Cursor(7, 100)}
    metadata = encode(cursors, FILTERS)

    assert metadata == f'{{"a":[3,50,["!{names[1]}","{names[0]}","~0123abcd"]],"b":[7,100,["~00000000"]]}}'
    assert cursors_of(("a", "b"), 3, metadata, 0, 9, FILTERS) == cursors
    assert cursors_of(("a", "b"), 3, metadata, 0, 9, {**FILTERS, "a": "ffffffff"}) == {
        "a": Cursor(3, NEW, names[:1], names[1:]),
        "b": Cursor(7, 100),
    }


def test_a_cursor_of_a_release_without_filters_goes_for_any() -> None:
    """An upgrade sends nothing again; a target that is not named is new, whatever its filter."""
    metadata = encode({"a": Cursor(3, 50)})

    assert cursors_of(("a", "b"), 3, metadata, 0, 9, FILTERS) == {"a": Cursor(3, 50), "b": Cursor(9, NEW)}


def test_metadata_with_filters_fits_a_broker() -> None:
    """Of the most targets, each with more alerts than there is room for: no filter is lost."""
    names = tuple(f"{n:016x}" for n in range(1_000))
    many = {f"{n:032}": Cursor(2**63 - 1, 2**63 - 1, names) for n in range(16)}
    filters = {name: f"{n:08x}" for n, name in enumerate(many)}
    metadata = encode(many, filters)

    assert len(metadata) <= METADATA_CHARACTERS_MAX
    kept = cursors_of(tuple(many), 1, metadata, 0, 2**63, dict.fromkeys(many, "ffffffff"))
    assert {one.released_ms for one in kept.values()} == {NEW}
    assert all(names[-5:] == one.unmatched[-5:] for one in kept.values())
