"""``stream_jobs.alerts.silences``: what silences match, and until when."""

from __future__ import annotations

import pytest

from schemas.contract.alert_commands import Command
from schemas.errors import RejectedError
from stream_jobs.alerts.silences import Silences

LABELS = {"host": "h-1", "gpu_uuid": "g-1", "severity": "warning"}


def silence(name: str, from_ms: int, until_ms: int, **labels: str) -> Command:
    return Command("mute", name, labels, from_ms, until_ms)


@pytest.mark.parametrize(
    ("labels", "until_ms"),
    [({}, 20), ({"host": "h-1"}, 20), ({"host": "h-1", "severity": "warning"}, 20), ({"host": "h-2"}, None)],
    ids=["everything", "a host", "both agree", "another host"],
)
def test_all_labels_of_a_silence_must_agree(labels: dict[str, str], until_ms: int | None) -> None:
    """No label at all means every alert; a label that the alert lacks agrees with nothing."""
    silences = Silences([silence("m", 10, 20, **labels)], 5)

    assert silences.until_ms(LABELS, 15) == until_ms
    assert Silences([silence("m", 10, 20, tenant="t")], 5).until_ms(LABELS, 15) is None


@pytest.mark.parametrize(("now_ms", "until_ms"), [(9, None), (10, 20), (19, 30), (20, 30), (30, None)])
def test_the_mute_that_ends_last_counts(now_ms: int, until_ms: int | None) -> None:
    """From its first to before its last millisecond, whether of the file or of people."""
    silences = Silences([silence("planned", 10, 20)], 5)
    silences.take(silence("m", 15, 30, host="h-1"))

    assert silences.until_ms(LABELS, now_ms) == until_ms


def test_a_command_replaces_the_one_with_its_id_and_an_unmute_ends_it() -> None:
    """Those of the file are not ended by a command."""
    silences = Silences([silence("planned", 0, 10)], 5)
    seen = []
    for command in (silence("m", 0, 30), silence("m", 0, 20), Command("unmute", "m"), Command("unmute", "planned")):
        silences.take(command)
        seen.append(silences.until_ms(LABELS, 5))

    assert seen == [30, 20, 10, 10]


def test_one_too_many_is_refused_and_ends_none_that_is_in_force() -> None:
    """However long it would last; one that is in force may be told anew, and an ended one makes room."""
    silences = Silences([], 2)
    for name in "ab":
        silences.take(silence(name, 0, 10, host=name))

    with pytest.raises(RejectedError, match="2 silences are in force"):
        silences.take(silence("c", 0, 99, host="c"))
    silences.take(silence("b", 0, 20, host="b"))
    assert [silences.until_ms({"host": name}, 5) for name in "abc"] == [10, 20, None]
    silences.take(Command("unmute", "a"))
    silences.take(silence("c", 0, 99, host="c"))
    assert [silences.until_ms({"host": name}, 5) for name in "abc"] == [None, 20, 99]


def test_what_is_over_is_forgotten_and_the_rest_survives_a_restart() -> None:
    """Of another file the silences count from then on."""
    silences = Silences([silence("old", 0, 99, host="h-9")], 5)
    silences.take(silence("a", 0, 10))
    silences.take(silence("b", 0, 11, host="h-1"))
    silences.forget(10)
    again = Silences([], 5)
    again.load(silences.dump())

    assert (silences.until_ms({}, 9), again.until_ms(LABELS, 9)) == (None, 11)
    assert again.until_ms({"host": "h-9"}, 9) is None
    again.forget(11)
    assert (again.any, silences.any) == (False, True)


HOUR_MS = 3_600_000


@pytest.mark.parametrize(("hour", "until_hour"), [(1, None), (2, 4), (24, None), (26, 28), (24 * 7 + 3, None)], ids=str)
def test_a_silence_that_comes_again_is_in_force_in_its_hours_alone(hour: int, until_hour: int | None) -> None:
    """On event time, between its own begin and end; a restart forgets nothing of it."""
    silences = Silences([], 5)
    silences.take(Command("mute", "m", {}, 0, 7 * 24 * HOUR_MS, every="day 02:00-04:00"))
    again = Silences([], 5)
    again.load(silences.dump())

    expected = None if until_hour is None else until_hour * HOUR_MS
    assert [one.until_ms(LABELS, hour * HOUR_MS) for one in (silences, again)] == [expected, expected]


def test_a_silence_that_comes_again_ends_with_its_last_day() -> None:
    """In the middle of its hours, where they reach beyond it."""
    silences = Silences([Command("mute", "m", {}, 0, 3 * HOUR_MS, every="Thu 02:00-04:00")], 5)

    assert silences.until_ms(LABELS, 2 * HOUR_MS) == 3 * HOUR_MS


def test_a_dump_keeps_apart_what_comes_again() -> None:
    """A job of 0.1.0 reads the others as it wrote them itself, and leaves out a key that it does not know."""
    silences = Silences([], 5)
    silences.take(silence("once", 0, 10))
    once = silences.dump()
    silences.take(Command("mute", "again", {}, 0, 10, every="day 02:00-04:00"))

    plain = {"command": "mute", "labels": {}, "from_ms": 0, "until_ms": 10, "reason": "", "by": ""}
    assert once == {"mutes": [{**plain, "id": "once"}]}
    assert silences.dump() == {
        **once,
        "recurring": [{**plain, "id": "again", "every": "day 02:00-04:00", "zone": "UTC"}],
    }
