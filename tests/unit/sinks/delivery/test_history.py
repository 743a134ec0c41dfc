"""What the topic's history says of open alerts: which state a target was sent."""

from __future__ import annotations

from typing import Any

from schemas.contract.alerts import Alert
from sinks.delivery.cursor import Cursor
from sinks.delivery.history import History, Past
from tests.unit.sinks.delivery.delivery_cases import NOW_MS, an_alert, at

SILENCED: dict[str, Any] = {"muted_until_ms": NOW_MS + 1}


def history(*alerts: Alert, cursor: Cursor | None = None, matches: bool = True, **settings: bool) -> History:
    """Of one partition, in the order of its offsets."""
    found = History({0: cursor or Cursor(9, 0)}, **{"send_silenced": False, **settings})
    for offset, alert in enumerate(alerts):
        found.remember(at(offset, alert), matches=matches)
    return found


def test_the_newest_is_kept_and_the_newest_that_was_not_silenced() -> None:
    """With the number of the first: whether the topic holds all of it."""
    first, second, third = an_alert("a"), an_alert("a", 2, "updated"), an_alert("a", 3, "updated", **SILENCED)

    assert history(first, second, third).pop("a") == Past(at(2, third), at(1, second), True, 1)
    assert history(third).pop("a") == Past(at(0, third), None, True, 3)


def test_silenced_ones_count_as_sent_where_they_are_sent_and_once_their_silence_is_over() -> None:
    """By when they were appended."""
    silenced, over = an_alert("a", **SILENCED), an_alert("a", muted_until_ms=NOW_MS)

    assert history(silenced, send_silenced=True).pop("a") == Past(at(0, silenced), at(0, silenced), True, 1)
    assert history(over).pop("a") == Past(at(0, over), at(0, over), True, 1)


def test_only_who_matched_was_sent_it() -> None:
    """Or who is known to have been."""
    alert = an_alert("a")

    assert history(alert, matches=False).pop("a") == Past(at(0, alert), None, False, 1)
    known = history(alert, matches=False, cursor=Cursor(9, 0, ("a",)))
    assert known.pop("a") == Past(at(0, alert), at(0, alert), False, 1)


def test_what_was_withheld_was_not_sent() -> None:
    """Although nothing silenced it when it came."""
    first, second = an_alert("a"), an_alert("a", 2, "updated", **SILENCED)

    assert history(first, second, cursor=Cursor(9, 0, (), ("a",))).pop("a") == Past(at(1, second), None, True, 1)


def test_what_is_over_is_forgotten() -> None:
    """By its end, or by a tombstone."""
    found = history(an_alert("a"), an_alert("b"), an_alert("c"), an_alert("a", 2, "resolved"))
    found.forget("b")

    assert list(found) == ["c"]
    assert found.pop("c") is not None
    assert list(found) == []
