"""``stream_jobs.alerts.alike``: how many machines have the same trouble since about the same time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.alerts.alike import Alike, Having

SIGNALS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.tuples(st.sampled_from(["x", "y", "z"]), st.integers(0, 6), st.booleans())
)


def test_machines_count_once_and_only_those_that_began_close_by() -> None:
    """Two signals of one machine are one; the ends of the span belong to it."""
    alike = Alike()
    for signal_id, place, since_ms in (("a", "x", 0), ("b", "x", 5), ("c", "y", 10), ("d", "z", 11)):
        alike.add(signal_id, Having(place, since_ms, ("k",)))

    assert [alike.close("k", since_ms, 10) for since_ms in (0, 1, 21, 22)] == [2, 3, 1, 0]
    assert alike.close("other", 0, 10) == 0
    alike.discard("c")
    alike.discard("c")
    assert [alike.close("k", since_ms, 10) for since_ms in (0, 1)] == [1, 2]


@given(SIGNALS, st.sets(st.sampled_from("abcdefgh")), st.integers(0, 6))
def test_answers_are_those_of_counting_anew(
    told: dict[str, tuple[str, int, bool]], gone: set[str], since_ms: int
) -> None:
    """Whatever came and went, also through a dump; what is gone leaves nothing."""
    alike, again = Alike(), Alike()
    for signal_id, (place, at_ms, both) in told.items():
        alike.add(signal_id, Having(place, at_ms, ("k", "m") if both else ("k",)))
        alike.close("k", since_ms, 2)
    for signal_id in gone:
        alike.discard(signal_id)
    again.load(alike.dump())
    left = {signal_id: one for signal_id, one in told.items() if signal_id not in gone}

    for key, needed in (("k", False), ("m", True)):
        near = {one[0] for one in left.values() if abs(one[1] - since_ms) <= 2 and (one[2] or not needed)}
        assert alike.close(key, since_ms, 2) == again.close(key, since_ms, 2) == len(near)
    assert (len(alike), set(left) == {one for one in told if one in alike}) == (len(left), True)
    for signal_id in left:
        alike.discard(signal_id)
    assert (alike.dump(), alike._places) == (Alike().dump(), {})
