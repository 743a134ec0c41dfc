"""``stream_jobs.insight.series``: which series has which slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.codec.block import Block, Labels
from stream_jobs.insight.lexicon import Lexicons
from stream_jobs.insight.series import Registry

BY = ("model", "tenant")
Pair = tuple[str | None, str | None]


def labels(pairs: Sequence[Pair]) -> list[Labels]:
    """Two columns of labels."""
    columns = []
    for words in zip(*pairs, strict=True):
        known = sorted({word for word in words if word is not None}, reverse=True)
        codes = [0 if word is None else known.index(word) + 1 for word in words]
        columns.append(Labels(np.array(codes, np.uint8), [None, *(word.encode() for word in known)]))
    return columns


def slots(registry: Registry, pairs: Sequence[Pair], end_ms: int = 0) -> list[int]:
    return registry.slots_of(labels(pairs), len(pairs), end_ms)[0].tolist()


def test_a_series_keeps_its_slot() -> None:
    """Whatever the order of rows and words, and null is a label like any other."""
    registry = Registry(BY)

    first = slots(registry, [("m", "t"), ("m", None), (None, "t")])
    again = slots(registry, [(None, "t"), ("x", "t"), ("m", "t"), ("m", None)])

    assert again == [first[2], 3, first[0], first[1]]


def test_lasting_codes_find_the_same_slots() -> None:
    """Of words that were there before and of those that came since, after some were forgotten, and over other words."""
    one, other = Registry(BY), Registry(BY)
    lexicons = Lexicons()
    steps: list[list[Pair]] = [
        [("a", "t"), ("b", "u")],
        [("c", None), ("b", "u")],
        [("a", "t"), ("d", "t")],
        [("b", "t")],
    ]
    for number, pairs in enumerate(steps):
        given = dict(zip(BY, labels(pairs), strict=True))
        shared = lexicons.block(Block(len(pairs), {**given})) if number != 2 else Block(len(pairs), {**given})

        found = one.slots_of([shared.labels(name) for name in BY], len(pairs), number)[0]

        assert found.tolist() == slots(other, pairs, number)
        for registry in (one, other):
            registry.forget(registry.idle(number, np.zeros(registry.room, bool)))
    assert {name: array.tobytes() for name, array in one.dump().items()} == {
        name: array.tobytes() for name, array in other.dump().items()
    }


def test_slots_go_by_the_order_of_labels() -> None:
    """Two registries that see the same series in other orders give the same slots, and the last places likewise."""
    one, two = Registry(BY, 2), Registry(BY, 2)

    assert slots(one, [("b", "t"), ("a", "t"), ("c", "t"), (None, "t")]) == [-1, 1, -1, 0]
    assert slots(two, [(None, "t"), ("c", "t"), ("a", "t"), ("b", "t")]) == [0, -1, 1, -1]
    assert (one.count, two.count) == (2, 2)


def test_time_in_which_nobody_was_looked_for_makes_none_idle() -> None:
    """Nor does it make any newer than that time, as those are that were looked at early; free slots stay free."""
    registry = Registry(BY)
    slots(registry, [("a", "t")], end_ms=100)
    slots(registry, [("b", "t")], end_ms=197)

    registry.pass_by(200, 10)

    assert registry.seen_ms[:3].tolist() == [110, 200, 0]


def test_a_forgotten_slot_is_given_out_again() -> None:
    """And the words that nobody uses any more are gone."""
    registry = Registry(BY, 2)
    slots(registry, [("a", "t"), ("b", "u")], 10)
    slots(registry, [("b", "u")], 20)

    idle = registry.idle(20, np.zeros(registry.room, bool))
    registry.forget(idle)

    assert idle.tolist() == [0]
    assert slots(registry, [("c", "u"), ("b", "u"), ("a", "t")]) == [-1, 1, 0]
    assert registry.labels_of(np.array([1, 0])) == [
        (("model", "b"), ("tenant", "u")),
        (("model", "a"), ("tenant", "t")),
    ]


def test_what_is_kept_is_not_idle() -> None:
    """A series that fires is never forgotten."""
    registry = Registry(BY)
    slots(registry, [("a", "t"), ("b", "t")])
    kept = np.zeros(registry.room, bool)
    kept[0] = True

    assert registry.idle(1, kept).tolist() == [1]


def test_null_labels_are_left_out_and_odd_bytes_are_shown() -> None:
    """Labels of a finding are text."""
    registry = Registry(("model",))
    registry.slots_of([Labels(np.array([1, 0]), [None, b"\xff"])], 2, 0)

    assert registry.labels_of(np.array([0, 1])) == [(), (("model", "�"),)]


def test_without_labels_there_is_one_series() -> None:
    """The fleet."""
    registry = Registry(())

    assert registry.slots_of([], 1, 5)[0].tolist() == [0]
    assert registry.slots_of([], 1, 6)[0].tolist() == [0]
    assert registry.slots_of([], 0, 7)[0].tolist() == []
    assert registry.labels_of(np.array([0])) == [()]


def test_a_dump_holds_all_of_it() -> None:
    """The loaded one knows the same series, forgotten places included, and dumps the same."""
    registry = Registry(BY, 100)
    slots(registry, [("a", "t"), ("b", None), ("c", "t")], 10)
    registry.forget(np.array([0]))
    kept = registry.dump()
    loaded = Registry(BY, 100)

    loaded.load({name: array.copy() for name, array in kept.items()})

    assert {name: array.tolist() for name, array in loaded.dump().items()} == {n: a.tolist() for n, a in kept.items()}
    assert slots(loaded, [("c", "t"), ("d", "t"), ("b", None)]) == slots(
        registry, [("c", "t"), ("d", "t"), ("b", None)]
    )


def test_a_flood_of_new_series_costs_no_more_than_the_limit() -> None:
    """A million a minute are 170,000 a window: those beyond the limit get no place and leave no word behind."""
    registry, each = Registry(("tenant",), 1_000), 170_000

    found = []
    for window in range(2):
        words: list[bytes | None] = [None, *(b"%d" % number for number in range(window * each, (window + 1) * each))]
        given = Labels(np.arange(1, each + 1, dtype=np.int32), words)
        found.append(int((registry.slots_of([given], each, window)[0] >= 0).sum()))

    assert found == [1_000, 0]
    assert (registry.count, registry.room, len(registry.words[0].words)) == (1_000, 1_024, 1_001)
