"""What a target is sent and when: order, retries, silences, filters, limits, sending again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.delivery.backlog import Send
from sinks.delivery.cursor import NEW, Cursor
from sinks.delivery.renotify import ENDED_KEPT_MS, EXCLUDED_MAX_MS
from sinks.delivery.schedule import Response
from sinks.delivery.target import RELEASE_MS, Resend, Target, Wait
from tests.unit.sinks.delivery.delivery_cases import NOW_MS, a_target, an_alert, at, when

GOOD, BUSY, BROKEN, NO = Response(200), Response(503), Response(500), Response(400, "bad")


def sent(target: Target, now_ms: int = NOW_MS, response: Response = GOOD) -> list[str]:
    """Everything that goes out now, with a response at once: fingerprint and number."""
    found = []
    while isinstance(step := target.next(when(now_ms)), Send):
        alert = step.delivery.transition.alert
        found.append(f"{alert.fingerprint}{alert.number}" + ("!" if step.acknowledge else ""))
        target.responded(step, response, when(now_ms), 1.0)
    return found


def feed(target: Target, *alerts: Any, now_ms: int = NOW_MS, since: int = 0) -> None:
    for offset, alert in enumerate(alerts, since):
        target.accept(at(offset, alert), when(now_ms))


def send(target: Target, now_ms: int = NOW_MS) -> Send:
    step = target.next(when(now_ms))
    assert isinstance(step, Send)
    return step


def test_transitions_of_an_alert_go_one_after_the_other_others_side_by_side() -> None:
    """The second of an alert waits for the response to its first."""
    target = a_target(parallel_max=2)
    feed(target, an_alert("a"), an_alert("a", 2, "updated"), an_alert("b"), an_alert("c"))

    first, second = send(target), send(target)

    assert [one.delivery.fingerprint for one in (first, second)] == ["a", "b"]
    assert target.next(when(NOW_MS)) == Wait(None)
    target.responded(second, GOOD, when(NOW_MS), 0.0)
    assert send(target).delivery.fingerprint == "c"
    target.responded(first, GOOD, when(NOW_MS), 0.0)
    assert send(target).delivery.transition.alert.number == 2


def test_the_cursor_follows_the_oldest_that_is_not_delivered() -> None:
    """A later one that is done does not move it."""
    target = a_target(parallel_max=2)
    feed(target, an_alert("a"), an_alert("b"))
    first, second = send(target), send(target)

    target.responded(second, GOOD, when(NOW_MS), 0.0)
    before = target.cursor(0, NOW_MS)
    target.responded(first, GOOD, when(NOW_MS), 0.0)

    assert (before, target.cursor(0, NOW_MS)) == (Cursor(0, NOW_MS), Cursor(2, NOW_MS))


def test_what_is_being_tried_again_is_as_old_as_it_was() -> None:
    """A target that does not answer has it in flight for most of the time: it waits all the same."""
    target = a_target()
    target.accept(at(0, an_alert("a"), appended_ms=NOW_MS - 400_000), when(NOW_MS))
    waits, tried = target.oldest_ms(), send(target)

    in_flight = target.oldest_ms()
    target.responded(tried, GOOD, when(NOW_MS), 0.0)

    assert (waits, in_flight, target.oldest_ms()) == (NOW_MS - 400_000, NOW_MS - 400_000, None)


def test_what_is_sent_late_waits_from_when_it_could_be_sent() -> None:
    """Held by a silence, from its end on; open when the target was added, from then on."""
    old = NOW_MS - 400_000
    silenced, added = a_target(), a_target(cursor=Cursor(1, NEW))
    silenced.accept(at(0, an_alert("a", **SILENCED), appended_ms=old), when(NOW_MS))
    added.accept(at(0, an_alert("a"), appended_ms=old), when(NOW_MS))
    added.begin()
    assert (sent(silenced), silenced.oldest_ms()) == ([], None)

    for target, now_ms in ((silenced, RELEASED_MS), (added, NOW_MS)):
        target.responded(send(target, now_ms), BUSY, when(now_ms), 1.0)

    assert (silenced.oldest_ms(), added.oldest_ms()) == (SILENCED["muted_until_ms"], NOW_MS)


def test_a_failing_target_is_tried_with_one_request_after_pauses_that_double() -> None:
    """Everything waits; when it is back all goes out."""
    target = a_target(retry_initial_s=1, retry_max_s=60)
    feed(target, an_alert("a"), an_alert("b"))

    target.responded(send(target), BUSY, when(NOW_MS), 1.0)
    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    target.responded(send(target, NOW_MS + 1_000), BUSY, when(NOW_MS + 1_000), 1.0)
    assert target.next(when(NOW_MS + 1_000)) == Wait(NOW_MS + 3_000)
    again = send(target, NOW_MS + 3_000)
    assert target.next(when(NOW_MS + 3_000)) == Wait(None)
    target.responded(again, GOOD, when(NOW_MS + 3_000), 1.0)

    assert sent(target, NOW_MS + 3_000) == ["a1" if again.delivery.fingerprint == "b" else "b1"]
    assert (target.counts["delivered"], target.counts["retried"]) == (2, 2)


def test_an_alert_that_a_target_fails_on_blocks_itself_alone() -> None:
    """500 is the alert's own failure: the others go on, and it waits longer each time."""
    target = a_target(parallel_max=1, retry_initial_s=1)
    feed(target, an_alert("a"), an_alert("b"), an_alert("c"))
    target.responded(send(target), BROKEN, when(NOW_MS), 1.0)

    assert sent(target) == ["b1", "c1"]
    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    target.responded(send(target, NOW_MS + 1_000), BROKEN, when(NOW_MS + 1_000), 1.0)
    assert target.next(when(NOW_MS + 1_000)) == Wait(NOW_MS + 3_000)


def test_retry_after_is_followed() -> None:
    """Longer than the pause would be."""
    target = a_target()
    feed(target, an_alert("a"))

    target.responded(send(target), Response(429, "", 30_000), when(NOW_MS), 0.0)

    assert target.next(when(NOW_MS + 29_999)) == Wait(NOW_MS + 30_000)
    assert sent(target, NOW_MS + 30_000) == ["a1"]


def test_what_is_rejected_is_given_up_at_once_and_passed_when_published() -> None:
    """The next transition goes out; the cursor waits for the topic of undelivered ones."""
    target = a_target()
    feed(target, an_alert("a"), an_alert("a", 2, "resolved"))
    target.responded(send(target), NO, when(NOW_MS), 0.0)

    (undelivered,) = target.undelivered
    assert (undelivered.reason, undelivered.detail, target.cursor(0, NOW_MS).offset) == (
        "rejected",
        "status 400: bad",
        0,
    )
    assert sent(target) == ["a2"]
    target.undelivered.popleft()
    target.published(undelivered)
    assert target.cursor(0, NOW_MS).offset == 2
    assert (target.counts["taken"], target.counts["delivered"], target.counts["undelivered"]) == (2, 1, 1)


def test_what_is_too_old_is_not_sent() -> None:
    """Counted from when it was appended; on the edge it is too old."""
    target = a_target(age_max_s=10, ends={0: 2})
    target.accept(at(0, an_alert("a"), appended_ms=NOW_MS - 10_000), when(NOW_MS))
    target.accept(at(1, an_alert("b"), appended_ms=NOW_MS - 9_999), when(NOW_MS))

    assert sent(target) == ["b1"]
    assert [(one.delivery.fingerprint, one.reason) for one in target.undelivered] == [("a", "too_old")]


def test_a_full_queue_gives_up_the_oldest_that_is_not_in_flight() -> None:
    """Order within an alert is kept, and memory is bounded."""
    target = a_target(queue_max=2)
    feed(target, an_alert("a"))
    first = send(target)
    feed(target, an_alert("b"), an_alert("c"), an_alert("d"), since=1)

    assert [(one.delivery.fingerprint, one.reason) for one in target.undelivered] == [
        ("b", "queue_full"),
        ("c", "queue_full"),
    ]
    target.responded(first, GOOD, when(NOW_MS), 0.0)
    assert sent(target) == ["d1"]


def test_only_what_matches_is_sent_but_who_got_the_beginning_gets_the_end() -> None:
    """Severity and labels; an alert whose labels change stays with who was notified."""
    target = a_target(severities=["critical"], match={"host": ["h1", "h2"]})
    feed(
        target,
        an_alert("a"),
        an_alert("b", severity="critical"),
        an_alert("c", severity="critical", labels={"host": "h3"}),
        an_alert("d", severity="critical", labels={}),
    )
    assert sent(target) == ["b1"]
    feed(target, an_alert("b", 2, "resolved", severity="critical", labels={"host": "h9"}), an_alert("c", 2), since=4)

    assert sent(target) == ["b2"]
    assert target.cursor(0, NOW_MS).offset == 6


def test_rate_limits_space_requests() -> None:
    """One at once, then one a second."""
    target = a_target(rate_per_s=1, burst=1)
    feed(target, an_alert("a"), an_alert("b"))

    assert sent(target) == ["a1"]
    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    assert sent(target, NOW_MS + 1_000) == ["b1"]


SILENCED = {"muted_until_ms": NOW_MS + 60_000}
RELEASED_MS = NOW_MS + 60_000 + RELEASE_MS


def test_a_silenced_alert_is_sent_when_the_silence_ends_while_it_is_open() -> None:
    """Its newest transition, once; when nobody said that the silence ended."""
    target = a_target()
    feed(target, an_alert("a", **SILENCED), an_alert("a", 2, "updated", **SILENCED))

    assert sent(target) == []
    assert target.next(when(NOW_MS)) == Wait(RELEASED_MS)
    assert (target.cursor(0, NOW_MS).offset, target.counts["silenced"]) == (2, 2)
    assert sent(target, RELEASED_MS - 1) == []
    assert sent(target, RELEASED_MS) == ["a2"]
    assert sent(target, RELEASED_MS + 1) == []


def test_the_end_of_a_silence_notifies_once_and_says_how_the_alert_stands_then() -> None:
    """The job's own transition is sent alone, not what was known before it."""
    target = a_target()
    feed(target, an_alert("a", **SILENCED))
    assert sent(target) == []
    assert sent(target, NOW_MS + 70_000) == []
    feed(target, an_alert("a", 2, "updated", value=9.0), since=1, now_ms=NOW_MS + 75_000)

    assert sent(target, NOW_MS + 75_000) == ["a2"]
    assert sent(target, RELEASED_MS) == []


def test_what_opened_and_resolved_in_a_silence_is_not_sent_after_it_either() -> None:
    """The target was unavailable until the silence was over."""
    target = a_target()
    feed(target, an_alert("b"))
    target.responded(send(target), Response(503, retry_after_ms=90_000), when(NOW_MS), 0.0)
    feed(target, an_alert("a", **SILENCED), an_alert("a", 2, "resolved", **SILENCED), since=1)

    assert sent(target, NOW_MS + 90_000) == ["b1"]
    assert target.counts["silenced"] == 2


def test_a_silenced_alert_that_ends_meanwhile_notifies_nobody() -> None:
    """Neither its beginning nor its end is sent."""
    target = a_target()
    feed(target, an_alert("a", **SILENCED), an_alert("a", 2, "resolved", **SILENCED))

    assert sent(target) == []
    assert sent(target, NOW_MS + 70_000) == []
    assert target.cursor(0, NOW_MS + 70_000) == Cursor(2, NOW_MS + 70_000)


def test_an_alert_silenced_after_it_was_sent_is_ended_where_it_was_sent() -> None:
    """The update is not sent, the end is although silenced."""
    target = a_target()
    feed(target, an_alert("a"))
    assert sent(target) == ["a1"]

    feed(target, an_alert("a", 2, "updated", **SILENCED), since=1)
    assert sent(target) == []
    feed(target, an_alert("a", 3, "resolved", **SILENCED), since=2)
    assert sent(target) == ["a3"]
    assert sent(target, NOW_MS + 70_000) == []


def test_a_silence_that_comes_while_an_alert_waits_keeps_it_from_being_sent() -> None:
    """The target was unavailable; nobody is notified when it is back."""
    target = a_target()
    feed(target, an_alert("a"))
    target.responded(send(target), BUSY, when(NOW_MS), 0.0)
    feed(target, an_alert("a", 2, "updated", **SILENCED), since=1)

    assert sent(target, NOW_MS + 30_000) == []
    assert sent(target, RELEASED_MS) == ["a2"]


def test_a_silence_that_is_removed_is_over() -> None:
    """The transition without it goes out at once, and nothing later."""
    target = a_target()
    feed(target, an_alert("a", **SILENCED))
    assert sent(target) == []
    feed(target, an_alert("a", 2, "updated"), since=1)

    assert sent(target) == ["a2"]
    assert sent(target, NOW_MS + 70_000) == []


def test_pagerduty_gets_a_silence_as_an_acknowledgement_once() -> None:
    """Then the trigger when it ends."""
    target = a_target("pagerduty")
    feed(target, an_alert("a"))
    assert sent(target) == ["a1"]
    feed(target, an_alert("a", 2, "updated", **SILENCED), an_alert("a", 3, "updated", **SILENCED), since=1)

    assert sent(target) == ["a2!"]
    assert sent(target, RELEASED_MS) == ["a3"]


def test_a_target_for_machines_ignores_silences() -> None:
    """``send_silenced``."""
    target = a_target(send_silenced=True)
    feed(target, an_alert("a", **SILENCED))

    assert sent(target) == ["a1"]


@pytest.mark.parametrize(
    ("released_ms", "muted_until_ms", "now_ms", "expected"),
    [
        pytest.param(NEW, None, NOW_MS, ["a1"], id="a new target is sent what is open"),
        pytest.param(0, None, NOW_MS, [], id="a known one was notified"),
        pytest.param(NOW_MS - 9, NOW_MS - 9, NOW_MS, [], id="a silence that ended and was handled"),
        pytest.param(NOW_MS - 9, NOW_MS - 8, NOW_MS - 8 + RELEASE_MS, ["a1"], id="one that ended meanwhile"),
        pytest.param(NOW_MS - 9, NOW_MS + 9, NOW_MS, [], id="a silence that goes on"),
        pytest.param(NOW_MS - 9, NOW_MS + 9, NOW_MS + 9 + RELEASE_MS, ["a1"], id="and then ends"),
    ],
)
def test_what_a_restart_still_has_to_send(
    released_ms: int, muted_until_ms: int | None, now_ms: int, expected: list[str]
) -> None:
    """Of alerts whose records are all behind the target's cursor."""
    target = a_target(cursor=Cursor(5, released_ms))
    feed(target, an_alert("a", muted_until_ms=muted_until_ms), an_alert("b"), an_alert("b", 2, "resolved"))
    target.begin()

    before = target.cursor(0, now_ms)
    assert sent(target, now_ms) == expected
    assert before.released_ms == ((muted_until_ms or 0) - 1 if expected else now_ms)
    assert target.cursor(0, now_ms) == Cursor(5, now_ms)


ELSEWHERE = {"labels": {"host": "h9"}}
WAS_SILENCED = an_alert("a", 2, "updated", muted_until_ms=NOW_MS + 9)


@pytest.mark.parametrize(
    ("kind", "records", "again", "ended"),
    [
        pytest.param("alertmanager", [an_alert("a"), WAS_SILENCED], ["a1"], ["a3"], id="it has it"),
        pytest.param("alertmanager", [an_alert("a", **SILENCED), WAS_SILENCED], [], [], id="it never had it"),
        pytest.param("alertmanager", [WAS_SILENCED], [], [], id="or it expires there"),
        pytest.param("webhook", [an_alert("a"), WAS_SILENCED], [], ["a3"], id="it was sent"),
        pytest.param("webhook", [an_alert("a", **SILENCED), WAS_SILENCED], [], [], id="it was not"),
        pytest.param("webhook", [WAS_SILENCED], [], ["a3"], id="better ended twice than never"),
    ],
)
def test_a_restart_in_a_silence_fires_nothing_that_was_silenced(
    kind: str, records: list[Any], again: list[str], ended: list[str]
) -> None:
    """What an Alertmanager has stays as it was sent; who was notified is notified of the end."""
    target = a_target(kind, cursor=Cursor(5, 0), resend_s=60)
    feed(target, *records)
    target.begin()

    step = target.next(when())
    resent = [f"{one.alert.fingerprint}{one.alert.number}" for one in getattr(step, "transitions", ())]
    assert (resent, isinstance(step, Send)) == (again, False)
    if resent:
        target.resent(GOOD, when(), 0.0)
    feed(target, an_alert("a", 3, "resolved", **SILENCED), since=5)
    assert sent(target) == ended


def test_what_was_silenced_before_it_could_be_sent_is_not_fired_by_a_restart() -> None:
    """The target was unavailable, and the topic's history looks as if it had been sent; over two restarts."""
    before = a_target("alertmanager")
    feed(before, an_alert("b"))
    before.responded(send(before), Response(503, retry_after_ms=20_000), when(), 0.0)
    feed(before, an_alert("a"), an_alert("a", 2, "updated", **SILENCED), since=1)
    assert sent(before, NOW_MS + 20_000) == ["b1"]

    cursor = before.cursor(0, NOW_MS + 20_000)
    assert cursor == Cursor(3, NOW_MS + 20_000, (), ("a",))
    for _ in range(2):
        after = a_target("alertmanager", cursor=cursor)
        feed(after, an_alert("b"), an_alert("a"), an_alert("a", 2, "updated", **SILENCED))
        after.begin()
        step = after.next(when(NOW_MS + 20_000))
        assert isinstance(step, Resend)
        assert [one.alert.fingerprint for one in step.transitions] == ["b"]
        cursor = after.cursor(0, NOW_MS + 20_000)
    after.resent(GOOD, when(NOW_MS + 20_000), 0.0)
    feed(after, an_alert("a", 3, "updated"), since=3)
    assert sent(after, NOW_MS + 20_000) == ["a3"]
    assert after.cursor(0, NOW_MS + 20_000).withheld == ()


@pytest.mark.parametrize("kind", ["alertmanager", "webhook"])
def test_what_was_silenced_when_a_target_was_added_is_not_fired_by_a_restart(kind: str) -> None:
    """The topic's history looks as if it had been sent; over two restarts. When the silence ends it is sent."""
    records = [an_alert("a"), an_alert("a", 2, "updated", **SILENCED)]
    cursor = Cursor(2, NEW)
    for _ in range(3):
        target = a_target(kind, cursor=cursor)
        feed(target, *records)
        target.begin()
        assert target.next(when()) == Wait(RELEASED_MS)
        cursor = target.cursor(0, NOW_MS)
        assert cursor == Cursor(2, NOW_MS, (), ("a",))

    ended, opened = a_target(kind, cursor=cursor), a_target(kind, cursor=cursor)
    for one in (ended, opened):
        feed(one, *records)
        one.begin()
    feed(ended, an_alert("a", 3, "resolved", **SILENCED), since=2)
    assert (sent(ended), ended.cursor(0, NOW_MS).withheld) == ([], ())
    feed(opened, an_alert("a", 3, "updated"), since=2)
    assert (sent(opened), opened.cursor(0, NOW_MS).withheld) == (["a3"], ())


@pytest.mark.parametrize(("response", "ended"), [(Response(0), ["a3"]), (BROKEN, ["a3"]), (Response(401), [])])
def test_the_end_is_sent_where_the_beginning_may_have_come_through(response: Response, ended: list[str]) -> None:
    """The response was lost, then somebody silenced it, then it was over."""
    target = a_target("pagerduty")
    feed(target, an_alert("a"))
    target.responded(send(target), response, when(), 0.0)
    feed(target, an_alert("a", 2, "updated", **SILENCED), since=1)
    acknowledged = sent(target, NOW_MS + 50_000)
    feed(target, an_alert("a", 3, "resolved", **SILENCED), since=2)

    assert acknowledged == (["a1!"] if ended else [])
    assert sent(target, NOW_MS + 55_000) == ended


def test_a_new_target_is_told_the_end_of_what_it_was_sent_beyond_its_filter() -> None:
    """Also while one alert that was open when it was added is still not delivered, over a restart."""
    settings: dict[str, Any] = {"match": {"host": ["h1"]}}
    before = a_target(cursor=Cursor(1, NEW), **settings)
    feed(before, an_alert("open"))
    before.begin()
    before.responded(send(before), BROKEN, when(), 0.0)
    feed(before, an_alert("x"), an_alert("x", 2, "updated", **ELSEWHERE), since=1)
    assert sent(before) == ["x1", "x2"]
    cursor = before.cursor(0, NOW_MS)
    assert cursor == Cursor(3, NEW, ("x",))

    after = a_target(cursor=cursor, **settings)
    feed(after, an_alert("open"), an_alert("x"), an_alert("x", 2, "updated", **ELSEWHERE))
    after.begin()
    feed(after, an_alert("x", 3, "resolved", **ELSEWHERE), since=3)

    assert sorted(sent(after)) == ["open1", "x3"]


def test_a_transition_of_just_before_the_end_of_a_silence_waits_for_the_one_that_says_it_ended() -> None:
    """Event time is behind the time of day: it still says that the alert is silenced."""
    target = a_target()
    feed(target, an_alert("a", **SILENCED), an_alert("a", 2, "updated", **SILENCED), now_ms=NOW_MS + 65_000)
    assert sent(target, NOW_MS + 65_000) == []
    feed(target, an_alert("a", 3, "updated"), since=2)

    assert sent(target, NOW_MS + 75_000) == ["a3"]


def test_the_end_of_an_alert_sent_before_a_restart_is_sent() -> None:
    """Also when it no longer matches; the history shows that it was sent."""
    target = a_target(cursor=Cursor(1, 0), severities=["warning"])
    feed(target, an_alert("a"))
    target.begin()
    feed(target, an_alert("a", 2, "resolved", severity="info"), an_alert("b", 2, "resolved", severity="info"), since=1)

    assert sent(target) == ["a2"]


def test_alertmanager_is_sent_open_alerts_again_and_for_a_while_what_ended() -> None:
    """Every ``resend_s``, with nothing else in flight; nothing when nothing is open."""
    target = a_target("alertmanager", resend_s=60)
    assert target.next(when(NOW_MS)) == Wait(None)
    feed(target, an_alert("a"), an_alert("b"))
    assert sent(target) == ["a1", "b1"]
    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 60_000)
    feed(target, an_alert("a", 2, "resolved"), since=2)
    assert sent(target) == ["a2"]

    later = target.next(when(NOW_MS + 60_000))
    assert isinstance(later, Resend)
    assert [(one.alert.fingerprint, one.alert.transition) for one in later.transitions] == [
        ("b", "opened"),
        ("a", "resolved"),
    ]
    target.resent(GOOD, when(NOW_MS + 60_000), 0.0)
    last = target.next(when(NOW_MS + ENDED_KEPT_MS))
    assert isinstance(last, Resend)
    assert [one.alert.fingerprint for one in last.transitions] == ["b"]


def resent(target: Target, now_ms: int) -> list[str]:
    """What is sent again now: fingerprint and transition; nothing where nothing is due."""
    step = target.next(when(now_ms))
    if not isinstance(step, Resend):
        return []
    target.resent(GOOD, when(now_ms), 0.0)
    return [f"{one.alert.fingerprint} {one.alert.transition}" for one in step.transitions]


def test_an_alert_whose_end_waited_too_long_is_not_sent_again_as_firing() -> None:
    """The target is sent its end for a while, then nothing."""
    target = a_target("alertmanager", resend_s=60, age_max_s=10)
    feed(target, an_alert("a"))
    assert sent(target) == ["a1"]
    feed(target, an_alert("a", 2, "resolved"), since=1)
    target.responded(send(target), BUSY, when(NOW_MS), 1.0)
    late_ms = NOW_MS + 59_000

    assert sent(target, late_ms) == []

    assert [one.reason for one in target.undelivered] == ["too_old"]
    assert target.open == 0
    assert resent(target, late_ms + 60_000) == ["a resolved"]
    assert resent(target, late_ms + ENDED_KEPT_MS) == []


def test_an_alert_whose_end_was_displaced_is_not_sent_again_as_firing() -> None:
    """By others, while many wait."""
    target = a_target("alertmanager", resend_s=60, queue_max=1)
    feed(target, an_alert("a"))
    assert sent(target) == ["a1"]

    feed(target, an_alert("a", 2, "resolved"), an_alert("b"), since=1)

    assert [one.reason for one in target.undelivered] == ["queue_full"]
    assert sent(target) == ["b1"]
    assert resent(target, NOW_MS + 60_000) == ["b opened", "a resolved"]


@pytest.mark.parametrize("kind", ["alertmanager", "webhook"])
def test_an_alert_whose_end_was_rejected_is_not_sent_again_at_all(kind: str) -> None:
    """It would be rejected once more; a target that is sent open alerts again lets it expire."""
    target = a_target(kind, resend_s=60)
    feed(target, an_alert("a"), an_alert("a", 2, "resolved"))
    target.responded(send(target), GOOD, when(NOW_MS), 0.0)
    target.responded(send(target), NO, when(NOW_MS), 0.0)

    assert [one.reason for one in target.undelivered] == ["rejected"]
    assert target.open == 0
    assert resent(target, NOW_MS + 60_000) == []


def test_what_ended_while_the_target_was_away_does_not_fire_before_its_end_is_sent() -> None:
    """Others that are open are sent again meanwhile."""
    target = a_target("alertmanager", cursor=Cursor(2, 0), resend_s=60)
    feed(target, an_alert("a"), an_alert("b"))
    target.begin()
    feed(target, an_alert("a", 2, "resolved"), since=2)

    assert resent(target, NOW_MS) == ["b opened"]
    assert sent(target) == ["a2"]
    assert resent(target, NOW_MS + 60_000) == ["b opened", "a resolved"]


def test_sending_again_that_failed_is_tried_again_soon() -> None:
    """Not only after another minute."""
    target = a_target("alertmanager", cursor=Cursor(1, 0), resend_s=60, retry_initial_s=1)
    feed(target, an_alert("a"))
    target.begin()
    assert isinstance(target.next(when(NOW_MS)), Resend)

    target.resent(Response(0), when(NOW_MS), 1.0)

    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    assert isinstance(target.next(when(NOW_MS + 1_000)), Resend)


def failing_of(step: Any, response: Response) -> list[tuple[Any, Response]]:
    return [(step.transitions[0], response)]


def test_what_cannot_be_sent_again_is_excluded_for_pauses_that_double() -> None:
    """Given up once when it was rejected; at once among the others again after a new transition was delivered."""
    target = a_target("alertmanager", cursor=Cursor(2, 0), resend_s=60)
    feed(target, an_alert("a"), an_alert("b"))
    target.begin()
    now_ms, sent_at = NOW_MS, []
    for _ in range(9):
        step = target.next(when(now_ms))
        assert isinstance(step, Resend)
        names = [one.alert.fingerprint for one in step.transitions]
        if names == ["a", "b"]:
            sent_at.append((now_ms - NOW_MS) // 60_000)
            target.resent(GOOD, when(now_ms), 0.0, failing_of(step, NO))
        else:
            target.resent(GOOD, when(now_ms), 0.0)
        now_ms += 60_000

    assert (sent_at, target.counts["excluded"], len(target.undelivered)) == ([0, 1, 3, 7], 4, 1)
    target.published(target.undelivered.popleft())
    assert (target.counts["taken"], target.counts["undelivered"], target.cursor(0, now_ms).offset) == (1, 1, 2)
    feed(target, an_alert("a", 2, "updated"), since=2)
    step = target.next(when(now_ms))
    assert isinstance(step, Resend)
    target.resent(GOOD, when(now_ms), 0.0)
    assert sent(target, now_ms) == ["a2"]
    step = target.next(when(now_ms + 60_000))
    assert isinstance(step, Resend)
    assert [one.alert.number for one in step.transitions] == [2, 1]


def test_an_exclusion_lasts_at_most_an_hour_and_ends_when_it_is_delivered() -> None:
    """Alone it is sent again then, and a failure of the target is no reason to give it up."""
    target = a_target("alertmanager", cursor=Cursor(1, 0), resend_s=3_600, valid_s=20_000)
    feed(target, an_alert("a"))
    target.begin()
    for times in range(3):
        step = target.next(when(NOW_MS + times * EXCLUDED_MAX_MS))
        assert isinstance(step, Resend)
        target.resent(GOOD, when(NOW_MS + times * EXCLUDED_MAX_MS), 0.0, failing_of(step, BROKEN))
    assert target.next(when(NOW_MS + 3 * EXCLUDED_MAX_MS - 1)) == Wait(NOW_MS + 3 * EXCLUDED_MAX_MS)

    assert isinstance(target.next(when(NOW_MS + 3 * EXCLUDED_MAX_MS)), Resend)
    target.resent(GOOD, when(NOW_MS + 3 * EXCLUDED_MAX_MS), 0.0)
    assert (target.counts["excluded"], len(target.undelivered)) == (3, 0)


@pytest.mark.parametrize("status", [301, 401, 403, 404, 405, 410])
def test_a_wrong_address_or_token_loses_nothing(status: int) -> None:
    """Everything waits until somebody has corrected it."""
    target = a_target(retry_initial_s=1, retry_max_s=60)
    feed(target, an_alert("a"), an_alert("b"))
    target.responded(send(target), Response(status), when(NOW_MS), 1.0)

    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    assert (sent(target, NOW_MS + 1_000), len(target.undelivered)) == (["b1", "a1"], 0)


def test_a_clock_that_is_set_stops_nothing_and_gives_up_nothing() -> None:
    """An hour back: sent again in time. Six hours on: what was read before or is read after is not too old."""
    target = a_target("alertmanager", rate_per_s=1, burst=1, resend_s=60)
    feed(target, an_alert("a"), an_alert("b"))
    assert sent(target) == ["a1"]
    hour = 3_600_000

    assert target.next(when(NOW_MS + 1, NOW_MS - hour)) == Wait(NOW_MS + 1_000)
    step = target.next(when(NOW_MS + 1_000, NOW_MS + 7 * hour))
    assert isinstance(step, Send)
    target.responded(step, BUSY, when(NOW_MS + 1_000, NOW_MS + 7 * hour), 1.0)
    assert target.next(when(NOW_MS + 1_001, NOW_MS - hour)) == Wait(NOW_MS + 2_000)
    step = target.next(when(NOW_MS + 2_000, NOW_MS - hour))
    assert isinstance(step, Send)
    target.responded(step, GOOD, when(NOW_MS + 2_000), 1.0)
    assert isinstance(target.next(when(NOW_MS + 60_000, NOW_MS - hour)), Resend)
    target.resent(GOOD, when(NOW_MS + 60_000), 0.0)
    target.accept(at(2, an_alert("c")), when(NOW_MS + 60_000, NOW_MS + 7 * hour))
    assert isinstance(target.next(when(NOW_MS + 60_000, NOW_MS + 7 * hour)), Send)
    assert len(target.undelivered) == 0


def test_what_was_on_the_topic_before_the_start_has_its_age_then_ages_by_the_monotonic_clock() -> None:
    """By append time when it is read; what comes later has none."""
    target = a_target(age_max_s=10, ends={0: 1}, retry_initial_s=1)
    target.accept(at(0, an_alert("a"), appended_ms=NOW_MS - 4_000), when(5, NOW_MS))
    target.accept(at(1, an_alert("b"), appended_ms=NOW_MS - 90_000), when(5, NOW_MS))

    for at_ms in (5, 6_004):
        first, second = target.next(when(at_ms, 0)), target.next(when(at_ms, 0))
        assert isinstance(first, Send)
        assert isinstance(second, Send)
        for one in (first, second):
            target.responded(one, BROKEN, when(at_ms, 0), 0.0)
    assert isinstance(target.next(when(8_005, 0)), Send)
    assert [one.delivery.fingerprint for one in target.undelivered] == ["a"]


def test_the_end_of_a_silence_is_a_time_of_day() -> None:
    """Waited for by the monotonic clock from the time of day now."""
    target = a_target()
    feed(target, an_alert("a", **SILENCED))

    assert target.next(when(NOW_MS)) == Wait(RELEASED_MS)
    assert target.next(when(NOW_MS + 5, RELEASED_MS - 1_000)) == Wait(NOW_MS + 1_005)
    assert isinstance(target.next(when(NOW_MS + 6, RELEASED_MS)), Send)


def test_the_end_of_an_alert_that_no_longer_matches_is_sent_over_a_restart() -> None:
    """What the target was sent beyond its filter is kept with its cursor, for as long as it is open."""
    settings: dict[str, Any] = {"match": {"host": ["h1"]}}
    before = a_target(**settings)
    feed(before, an_alert("a"), an_alert("a", 2, "updated", **ELSEWHERE), an_alert("b", **ELSEWHERE), an_alert("c"))
    assert sorted(sent(before)) == ["a1", "a2", "c1"]
    cursor = before.cursor(0, NOW_MS)
    assert cursor == Cursor(4, NOW_MS, ("a",))

    after = a_target(cursor=cursor, **settings)
    feed(
        after, an_alert("a", 2, "updated", **ELSEWHERE), an_alert("b", **ELSEWHERE), since=1
    )  # the first was compacted
    after.begin()
    assert after.cursor(0, NOW_MS) == cursor
    feed(after, an_alert("a", 3, "resolved", **ELSEWHERE), an_alert("b", 2, "resolved", **ELSEWHERE), since=4)

    assert sent(after) == ["a3"]
    assert after.cursor(0, NOW_MS) == Cursor(6, NOW_MS)


def test_what_a_wider_filter_matches_and_is_open_is_sent_once() -> None:
    """The target was not sent it; and what it was sent beyond the filter before is not sent again."""
    settings: dict[str, Any] = {"match": {"host": ["h1", "h9"]}}
    history = [an_alert("a", **ELSEWHERE), an_alert("b", **ELSEWHERE)]
    target = a_target(cursor=Cursor(2, NEW, ("b",)), **settings)
    feed(target, *history)
    target.begin()
    assert target.cursor(0, NOW_MS).released_ms == NEW  # a crash now sends it all the same
    assert sent(target) == ["a1"]

    again = a_target(cursor=target.cursor(0, NOW_MS), **settings)
    feed(again, *history)
    again.begin()
    assert sent(again) == []
    feed(again, *(an_alert(name, 2, "resolved", **ELSEWHERE) for name in "ab"), since=2)
    assert sorted(sent(again)) == ["a2", "b2"]


def test_an_end_that_was_given_up_and_not_published_is_taken_again_after_a_crash() -> None:
    """Also where neither it nor what the topic still holds of the alert matches: the cursor names it until then."""
    settings: dict[str, Any] = {"match": {"host": ["h1"]}}
    before = a_target(**settings)
    end = an_alert("a", 3, "resolved", **ELSEWHERE)
    feed(before, an_alert("a"), an_alert("a", 2, "updated", **ELSEWHERE))
    assert sent(before) == ["a1", "a2"]
    feed(before, end, an_alert("b"), since=2)
    assert sent(before, response=NO) == ["a3", "b1"]
    cursor = before.cursor(0, NOW_MS)
    assert cursor == Cursor(2, NOW_MS, ("a",))

    after = a_target(cursor=cursor, **settings)
    feed(after, an_alert("a", 2, "updated", **ELSEWHERE), end, since=1)
    after.begin()

    assert sent(after, response=NO) == ["a3"]
    (undelivered,) = after.undelivered
    after.undelivered.popleft()
    after.published(undelivered)
    assert after.cursor(0, NOW_MS) == Cursor(3, NOW_MS)


@pytest.mark.parametrize(("released_ms", "expected"), [(0, ["a3"]), (NEW, [])])
def test_what_the_history_shows_as_matched_once_was_sent(released_ms: int, expected: list[str]) -> None:
    """Also where the cursor does not list it; a target that is new was sent nothing."""
    target = a_target(cursor=Cursor(2, released_ms), match={"host": ["h1"]})
    feed(target, an_alert("a"), an_alert("a", 2, "updated", **ELSEWHERE))
    target.begin()
    feed(target, an_alert("a", 3, "resolved", **ELSEWHERE), since=2)

    assert sent(target) == expected


def test_an_alert_of_an_earlier_life_does_not_count_for_this_one() -> None:
    """It matched, ended, and came again elsewhere: this target was never notified of that."""
    target = a_target(cursor=Cursor(3, 0), match={"host": ["h1"]})
    feed(target, an_alert("a"), an_alert("a", 2, "resolved"), an_alert("a", **ELSEWHERE))
    target.begin()
    feed(target, an_alert("a", 2, "resolved", **ELSEWHERE), since=3)

    assert sent(target) == []


def test_a_tombstone_is_forgotten_and_open_alerts_beyond_the_limit_are_not_kept() -> None:
    """What was sent and is gone from the topic is not sent again."""
    target = a_target("alertmanager", cursor=Cursor(3, 0), open_max=1)
    feed(target, an_alert("a"), an_alert("b"), an_alert("c"))
    target.forget("a", 0, 3)
    target.begin()

    assert (target.open, target.counts["over_limit"], target.cursor(0, NOW_MS).offset) == (1, 1, 4)


life = st.lists(
    st.tuples(st.sampled_from("abc"), st.booleans(), st.sampled_from([None, 500, 5_000])), min_size=1, max_size=25
)


@given(life, st.lists(st.sampled_from([GOOD, BUSY, BROKEN, NO, Response(0)]), max_size=40), st.integers(1, 4))
def test_books_balance_and_order_holds_for_any_responses(
    records: list[tuple[str, bool, int | None]], responses: list[Response], parallel: int
) -> None:
    """Every transition is delivered, undelivered or silenced; numbers of an alert never go back."""
    target = a_target(parallel_max=parallel, retry_initial_s=0.1, retry_max_s=1)
    numbers = dict.fromkeys("abc", 0)
    for offset, (name, ends, silenced_ms) in enumerate(records):
        numbers[name] += 1
        fields = {"muted_until_ms": None if silenced_ms is None else NOW_MS + silenced_ms}
        alert = an_alert(name, numbers[name], "resolved" if ends else "updated", **fields)
        target.accept(at(offset, alert), when(NOW_MS))
    out: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    left, now_ms, in_flight = list(responses), NOW_MS, []
    for _ in range(2_000):
        step = target.next(when(now_ms))
        if isinstance(step, Send):
            in_flight.append(step)
            continue
        if in_flight:
            one = in_flight.pop()
            response = left.pop() if left else GOOD
            if response is GOOD:
                out[one.delivery.fingerprint].append(one.delivery.transition.alert.number)
            target.responded(one, response, when(now_ms), 0.5)
        elif isinstance(step, Wait) and step.until_ms is not None:
            now_ms = max(now_ms, step.until_ms)
        else:
            break
    while target.undelivered:
        target.published(target.undelivered.popleft())

    counts = target.counts
    assert counts["taken"] == counts["delivered"] + counts["undelivered"] + counts["silenced"]
    assert target.waiting == 0
    assert all(found == sorted(set(found)) for found in out.values())
    assert target.cursor(0, now_ms) == Cursor(len(records), now_ms)
