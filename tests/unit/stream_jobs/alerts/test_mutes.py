"""``stream_jobs.alerts.mutes``: who is not to be woken, and until when."""

from __future__ import annotations

import pytest

from schemas.contract.alert_commands import Command
from schemas.errors import RejectedError
from stream_jobs.alerts.mutes import Mutes

LABELS = {"host": "h-1", "gpu_uuid": "g-1", "severity": "warning"}


def mute(name: str, from_ms: int, until_ms: int, **labels: str) -> Command:
    return Command("mute", name, labels, from_ms, until_ms)


@pytest.mark.parametrize(
    ("labels", "until_ms"),
    [({}, 20), ({"host": "h-1"}, 20), ({"host": "h-1", "severity": "warning"}, 20), ({"host": "h-2"}, None)],
    ids=["everything", "a host", "both agree", "another host"],
)
def test_all_labels_of_a_mute_must_agree(labels: dict[str, str], until_ms: int | None) -> None:
    """No label at all means every alert; a label that the alert lacks agrees with nothing."""
    mutes = Mutes([mute("m", 10, 20, **labels)], 5)

    assert mutes.until_ms(LABELS, 15) == until_ms
    assert Mutes([mute("m", 10, 20, tenant="t")], 5).until_ms(LABELS, 15) is None


@pytest.mark.parametrize(("now_ms", "until_ms"), [(9, None), (10, 20), (19, 30), (20, 30), (30, None)])
def test_the_mute_that_ends_last_counts(now_ms: int, until_ms: int | None) -> None:
    """From its first to before its last millisecond, whether of the file or of people."""
    mutes = Mutes([mute("planned", 10, 20)], 5)
    mutes.take(mute("m", 15, 30, host="h-1"))

    assert mutes.until_ms(LABELS, now_ms) == until_ms


def test_a_command_replaces_the_one_with_its_id_and_an_unmute_ends_it() -> None:
    """Those of the file are not ended by a command."""
    mutes = Mutes([mute("planned", 0, 10)], 5)
    seen = []
    for command in (mute("m", 0, 30), mute("m", 0, 20), Command("unmute", "m"), Command("unmute", "planned")):
        mutes.take(command)
        seen.append(mutes.until_ms(LABELS, 5))

    assert seen == [30, 20, 10, 10]


def test_one_too_many_is_refused_and_ends_none_that_is_in_force() -> None:
    """However long it would last; one that is in force may be told anew, and an ended one makes room."""
    mutes = Mutes([], 2)
    for name in "ab":
        mutes.take(mute(name, 0, 10, host=name))

    with pytest.raises(RejectedError, match="2 mutes are in force"):
        mutes.take(mute("c", 0, 99, host="c"))
    mutes.take(mute("b", 0, 20, host="b"))
    assert [mutes.until_ms({"host": name}, 5) for name in "abc"] == [10, 20, None]
    mutes.take(Command("unmute", "a"))
    mutes.take(mute("c", 0, 99, host="c"))
    assert [mutes.until_ms({"host": name}, 5) for name in "abc"] == [None, 20, 99]


def test_what_is_over_is_forgotten_and_the_rest_survives_a_restart() -> None:
    """Of another file the mutes count from then on."""
    mutes = Mutes([mute("old", 0, 99, host="h-9")], 5)
    mutes.take(mute("a", 0, 10))
    mutes.take(mute("b", 0, 11, host="h-1"))
    mutes.forget(10)
    again = Mutes([], 5)
    again.load(mutes.dump())

    assert (mutes.until_ms({}, 9), again.until_ms(LABELS, 9)) == (None, 11)
    assert again.until_ms({"host": "h-9"}, 9) is None
    again.forget(11)
    assert (again.any, mutes.any) == (False, True)
