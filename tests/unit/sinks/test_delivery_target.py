"""What a target is told and when: order, retries, mutes, filters, limits, telling again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.delivery.known import ENDED_KEPT_MS, LEFT_OUT_MAX_MS
from sinks.delivery.place import NEW, Place
from sinks.delivery.schedule import Answer
from sinks.delivery.target import Resend, Send, Target, Wait
from tests.unit.sinks.delivery_cases import NOW_MS, a_target, an_alert, at, when

GOOD, BUSY, BROKEN, NO = Answer(200), Answer(503), Answer(500), Answer(400, "bad")


def told(target: Target, now_ms: int = NOW_MS, answer: Answer = GOOD) -> list[str]:
    """Everything that goes out now, answered at once: fingerprint and number."""
    found = []
    while isinstance(step := target.next(when(now_ms)), Send):
        alert = step.delivery.transition.alert
        found.append(f"{alert.fingerprint}{alert.number}" + ("!" if step.acknowledge else ""))
        target.answered(step, answer, when(now_ms), 1.0)
    return found


def feed(target: Target, *alerts: Any, now_ms: int = NOW_MS, since: int = 0) -> None:
    for offset, alert in enumerate(alerts, since):
        target.accept(at(offset, alert), when(now_ms))


def send(target: Target, now_ms: int = NOW_MS) -> Send:
    step = target.next(when(now_ms))
    assert isinstance(step, Send)
    return step


def test_transitions_of_an_alert_go_one_after_the_other_others_side_by_side() -> None:
    """The second of an alert waits for the answer to its first."""
    target = a_target(parallel_max=2)
    feed(target, an_alert("a"), an_alert("a", 2, "updated"), an_alert("b"), an_alert("c"))

    first, second = send(target), send(target)

    assert [one.delivery.fingerprint for one in (first, second)] == ["a", "b"]
    assert target.next(when(NOW_MS)) == Wait(None)
    target.answered(second, GOOD, when(NOW_MS), 0.0)
    assert send(target).delivery.fingerprint == "c"
    target.answered(first, GOOD, when(NOW_MS), 0.0)
    assert send(target).delivery.transition.alert.number == 2


def test_the_place_follows_the_oldest_that_is_not_delivered() -> None:
    """A later one that is done does not move it."""
    target = a_target(parallel_max=2)
    feed(target, an_alert("a"), an_alert("b"))
    first, second = send(target), send(target)

    target.answered(second, GOOD, when(NOW_MS), 0.0)
    before = target.place(0, NOW_MS)
    target.answered(first, GOOD, when(NOW_MS), 0.0)

    assert (before, target.place(0, NOW_MS)) == (Place(0, NOW_MS), Place(2, NOW_MS))


def test_a_target_in_trouble_is_tried_with_one_request_after_pauses_that_double() -> None:
    """Everything waits; when it is back all goes out."""
    target = a_target(retry_initial_s=1, retry_max_s=60)
    feed(target, an_alert("a"), an_alert("b"))

    target.answered(send(target), BUSY, when(NOW_MS), 1.0)
    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    target.answered(send(target, NOW_MS + 1_000), BUSY, when(NOW_MS + 1_000), 1.0)
    assert target.next(when(NOW_MS + 1_000)) == Wait(NOW_MS + 3_000)
    again = send(target, NOW_MS + 3_000)
    assert target.next(when(NOW_MS + 3_000)) == Wait(None)
    target.answered(again, GOOD, when(NOW_MS + 3_000), 1.0)

    assert told(target, NOW_MS + 3_000) == ["a1" if again.delivery.fingerprint == "b" else "b1"]
    assert (target.counts["delivered"], target.counts["retried"]) == (2, 2)


def test_an_alert_that_a_target_chokes_on_holds_up_itself_alone() -> None:
    """500 is the alert's own trouble: the others go on, and it waits longer each time."""
    target = a_target(parallel_max=1, retry_initial_s=1)
    feed(target, an_alert("a"), an_alert("b"), an_alert("c"))
    target.answered(send(target), BROKEN, when(NOW_MS), 1.0)

    assert told(target) == ["b1", "c1"]
    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    target.answered(send(target, NOW_MS + 1_000), BROKEN, when(NOW_MS + 1_000), 1.0)
    assert target.next(when(NOW_MS + 1_000)) == Wait(NOW_MS + 3_000)


def test_retry_after_is_heeded() -> None:
    """Longer than the pause would be."""
    target = a_target()
    feed(target, an_alert("a"))

    target.answered(send(target), Answer(429, "", 30_000), when(NOW_MS), 0.0)

    assert target.next(when(NOW_MS + 29_999)) == Wait(NOW_MS + 30_000)
    assert told(target, NOW_MS + 30_000) == ["a1"]


def test_what_is_refused_is_given_up_at_once_and_passed_when_written_down() -> None:
    """The next transition goes out; the place waits for the topic of undelivered ones."""
    target = a_target()
    feed(target, an_alert("a"), an_alert("a", 2, "resolved"))
    target.answered(send(target), NO, when(NOW_MS), 0.0)

    (dead,) = target.dead
    assert (dead.reason, dead.detail, target.place(0, NOW_MS).offset) == ("refused", "status 400: bad", 0)
    assert told(target) == ["a2"]
    target.dead.popleft()
    target.buried(dead)
    assert target.place(0, NOW_MS).offset == 2
    assert (target.counts["taken"], target.counts["delivered"], target.counts["undelivered"]) == (2, 1, 1)


def test_what_is_too_old_is_not_sent() -> None:
    """Counted from when it was appended; on the edge it is too old."""
    target = a_target(age_max_s=10, ends={0: 2})
    target.accept(at(0, an_alert("a"), appended_ms=NOW_MS - 10_000), when(NOW_MS))
    target.accept(at(1, an_alert("b"), appended_ms=NOW_MS - 9_999), when(NOW_MS))

    assert told(target) == ["b1"]
    assert [(one.delivery.fingerprint, one.reason) for one in target.dead] == [("a", "too_old")]


def test_a_full_queue_gives_up_the_oldest_that_is_not_under_way() -> None:
    """Order within an alert is kept, and memory is bounded."""
    target = a_target(queue_max=2)
    feed(target, an_alert("a"))
    first = send(target)
    feed(target, an_alert("b"), an_alert("c"), an_alert("d"), since=1)

    assert [(one.delivery.fingerprint, one.reason) for one in target.dead] == [("b", "queue_full"), ("c", "queue_full")]
    target.answered(first, GOOD, when(NOW_MS), 0.0)
    assert told(target) == ["d1"]


def test_only_what_is_asked_for_is_sent_but_who_heard_the_beginning_hears_the_end() -> None:
    """Severity and labels; an alert whose labels change stays with who was told."""
    target = a_target(severities=["critical"], match={"host": ["h1", "h2"]})
    feed(
        target,
        an_alert("a"),
        an_alert("b", severity="critical"),
        an_alert("c", severity="critical", labels={"host": "h3"}),
        an_alert("d", severity="critical", labels={}),
    )
    assert told(target) == ["b1"]
    feed(target, an_alert("b", 2, "resolved", severity="critical", labels={"host": "h9"}), an_alert("c", 2), since=4)

    assert told(target) == ["b2"]
    assert target.place(0, NOW_MS).offset == 6


def test_rate_limits_space_requests() -> None:
    """One at once, then one a second."""
    target = a_target(rate_per_s=1, burst=1)
    feed(target, an_alert("a"), an_alert("b"))

    assert told(target) == ["a1"]
    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    assert told(target, NOW_MS + 1_000) == ["b1"]


MUTED = {"muted_until_ms": NOW_MS + 60_000}


def test_a_muted_alert_is_told_when_the_mute_ends_while_it_is_open() -> None:
    """Its newest transition, once."""
    target = a_target()
    feed(target, an_alert("a", **MUTED), an_alert("a", 2, "updated", **MUTED))

    assert told(target) == []
    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 60_000)
    assert (target.place(0, NOW_MS).offset, target.counts["held"]) == (2, 2)
    assert told(target, NOW_MS + 60_000) == ["a2"]
    assert told(target, NOW_MS + 60_001) == []


def test_a_muted_alert_that_ends_meanwhile_wakes_nobody() -> None:
    """Neither its beginning nor its end is told."""
    target = a_target()
    feed(target, an_alert("a", **MUTED), an_alert("a", 2, "resolved", **MUTED))

    assert told(target) == []
    assert told(target, NOW_MS + 70_000) == []
    assert target.place(0, NOW_MS + 70_000) == Place(2, NOW_MS + 70_000)


def test_an_alert_muted_after_it_was_told_is_ended_where_it_is_known() -> None:
    """The update is held back, the end is told although muted."""
    target = a_target()
    feed(target, an_alert("a"))
    assert told(target) == ["a1"]

    feed(target, an_alert("a", 2, "updated", **MUTED), since=1)
    assert told(target) == []
    feed(target, an_alert("a", 3, "resolved", **MUTED), since=2)
    assert told(target) == ["a3"]
    assert told(target, NOW_MS + 70_000) == []


def test_a_mute_that_comes_while_an_alert_waits_holds_it_back() -> None:
    """The target was away; nobody is woken when it is back."""
    target = a_target()
    feed(target, an_alert("a"))
    target.answered(send(target), BUSY, when(NOW_MS), 0.0)
    feed(target, an_alert("a", 2, "updated", **MUTED), since=1)

    assert told(target, NOW_MS + 30_000) == []
    assert told(target, NOW_MS + 60_000) == ["a2"]


def test_a_mute_that_is_taken_back_is_over() -> None:
    """The transition without it goes out at once, and nothing later."""
    target = a_target()
    feed(target, an_alert("a", **MUTED))
    assert told(target) == []
    feed(target, an_alert("a", 2, "updated"), since=1)

    assert told(target) == ["a2"]
    assert told(target, NOW_MS + 70_000) == []


def test_pagerduty_hears_of_a_mute_as_an_acknowledgement_once() -> None:
    """Then the trigger when it ends."""
    target = a_target("pagerduty")
    feed(target, an_alert("a"))
    assert told(target) == ["a1"]
    feed(target, an_alert("a", 2, "updated", **MUTED), an_alert("a", 3, "updated", **MUTED), since=1)

    assert told(target) == ["a2!"]
    assert told(target, NOW_MS + 60_000) == ["a3"]


def test_a_target_for_machines_heeds_no_mute() -> None:
    """``send_muted``."""
    target = a_target(send_muted=True)
    feed(target, an_alert("a", **MUTED))

    assert told(target) == ["a1"]


@pytest.mark.parametrize(
    ("released_ms", "muted_until_ms", "now_ms", "expected"),
    [
        pytest.param(NEW, None, NOW_MS, ["a1"], id="a new target is told what is open"),
        pytest.param(0, None, NOW_MS, [], id="a known one was told"),
        pytest.param(NOW_MS - 9, NOW_MS - 9, NOW_MS, [], id="a mute that ended and was dealt with"),
        pytest.param(NOW_MS - 9, NOW_MS - 8, NOW_MS, ["a1"], id="a mute that ended while we were away"),
        pytest.param(NOW_MS - 9, NOW_MS + 9, NOW_MS, [], id="a mute that goes on"),
        pytest.param(NOW_MS - 9, NOW_MS + 9, NOW_MS + 9, ["a1"], id="and then ends"),
    ],
)
def test_what_a_restart_still_has_to_tell(
    released_ms: int, muted_until_ms: int | None, now_ms: int, expected: list[str]
) -> None:
    """Of alerts whose records are all behind the target's place."""
    target = a_target(place=Place(5, released_ms))
    feed(target, an_alert("a", muted_until_ms=muted_until_ms), an_alert("b"), an_alert("b", 2, "resolved"))
    target.begin()

    before = target.place(0, now_ms)
    assert told(target, now_ms) == expected
    assert before.released_ms == ((muted_until_ms or 0) - 1 if expected else now_ms)
    assert target.place(0, now_ms) == Place(5, now_ms)


def test_the_end_of_an_alert_known_before_a_restart_is_told() -> None:
    """Also when it no longer matches; the history says that it was told."""
    target = a_target(place=Place(1, 0), severities=["warning"])
    feed(target, an_alert("a"))
    target.begin()
    feed(target, an_alert("a", 2, "resolved", severity="info"), an_alert("b", 2, "resolved", severity="info"), since=1)

    assert told(target) == ["a2"]


def test_alertmanager_is_told_open_alerts_again_and_for_a_while_what_ended() -> None:
    """Every ``resend_s``, with nothing else under way; nothing when nothing is open."""
    target = a_target("alertmanager", resend_s=60)
    assert target.next(when(NOW_MS)) == Wait(None)
    feed(target, an_alert("a"), an_alert("b"))
    assert told(target) == ["a1", "b1"]
    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 60_000)
    feed(target, an_alert("a", 2, "resolved"), since=2)
    assert told(target) == ["a2"]

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


def test_telling_again_that_failed_is_tried_again_soon() -> None:
    """Not only after another minute."""
    target = a_target("alertmanager", place=Place(1, 0), resend_s=60, retry_initial_s=1)
    feed(target, an_alert("a"))
    target.begin()
    assert isinstance(target.next(when(NOW_MS)), Resend)

    target.resent(Answer(0), when(NOW_MS), 1.0)

    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    assert isinstance(target.next(when(NOW_MS + 1_000)), Resend)


def culprits_of(step: Any, answer: Answer) -> list[tuple[Any, Answer]]:
    return [(step.transitions[0], answer)]


def test_what_cannot_be_told_again_is_left_out_for_pauses_that_double() -> None:
    """Given up once when it was refused; at once among the others again after a new transition was delivered."""
    target = a_target("alertmanager", place=Place(2, 0), resend_s=60)
    feed(target, an_alert("a"), an_alert("b"))
    target.begin()
    now_ms, told_at = NOW_MS, []
    for _ in range(9):
        step = target.next(when(now_ms))
        assert isinstance(step, Resend)
        names = [one.alert.fingerprint for one in step.transitions]
        if names == ["a", "b"]:
            told_at.append((now_ms - NOW_MS) // 60_000)
            target.resent(GOOD, when(now_ms), 0.0, culprits_of(step, NO))
        else:
            target.resent(GOOD, when(now_ms), 0.0)
        now_ms += 60_000

    assert (told_at, target.counts["left_out"], len(target.dead)) == ([0, 1, 3, 7], 4, 1)
    target.buried(target.dead.popleft())
    assert (target.counts["taken"], target.counts["undelivered"], target.place(0, now_ms).offset) == (1, 1, 2)
    feed(target, an_alert("a", 2, "updated"), since=2)
    step = target.next(when(now_ms))
    assert isinstance(step, Resend)
    target.resent(GOOD, when(now_ms), 0.0)
    assert told(target, now_ms) == ["a2"]
    step = target.next(when(now_ms + 60_000))
    assert isinstance(step, Resend)
    assert [one.alert.number for one in step.transitions] == [2, 1]


def test_left_out_is_at_most_an_hour_and_ends_when_it_is_taken() -> None:
    """Alone it is told again then, and a failure of the target is no reason to give it up."""
    target = a_target("alertmanager", place=Place(1, 0), resend_s=3_600, valid_s=20_000)
    feed(target, an_alert("a"))
    target.begin()
    for times in range(3):
        step = target.next(when(NOW_MS + times * LEFT_OUT_MAX_MS))
        assert isinstance(step, Resend)
        target.resent(GOOD, when(NOW_MS + times * LEFT_OUT_MAX_MS), 0.0, culprits_of(step, BROKEN))
    assert target.next(when(NOW_MS + 3 * LEFT_OUT_MAX_MS - 1)) == Wait(NOW_MS + 3 * LEFT_OUT_MAX_MS)

    assert isinstance(target.next(when(NOW_MS + 3 * LEFT_OUT_MAX_MS)), Resend)
    target.resent(GOOD, when(NOW_MS + 3 * LEFT_OUT_MAX_MS), 0.0)
    assert (target.counts["left_out"], len(target.dead)) == (3, 0)


@pytest.mark.parametrize("status", [301, 401, 403, 404, 405, 410])
def test_a_wrong_address_or_token_loses_nothing(status: int) -> None:
    """Everything waits until somebody has put it right."""
    target = a_target(retry_initial_s=1, retry_max_s=60)
    feed(target, an_alert("a"), an_alert("b"))
    target.answered(send(target), Answer(status), when(NOW_MS), 1.0)

    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 1_000)
    assert (told(target, NOW_MS + 1_000), len(target.dead)) == (["b1", "a1"], 0)


def test_a_clock_that_is_set_stops_nothing_and_gives_up_nothing() -> None:
    """An hour back: told again in time. Six hours on: what was read before or is read after is not too old."""
    target = a_target("alertmanager", rate_per_s=1, burst=1, resend_s=60)
    feed(target, an_alert("a"), an_alert("b"))
    assert told(target) == ["a1"]
    hour = 3_600_000

    assert target.next(when(NOW_MS + 1, NOW_MS - hour)) == Wait(NOW_MS + 1_000)
    step = target.next(when(NOW_MS + 1_000, NOW_MS + 7 * hour))
    assert isinstance(step, Send)
    target.answered(step, BUSY, when(NOW_MS + 1_000, NOW_MS + 7 * hour), 1.0)
    assert target.next(when(NOW_MS + 1_001, NOW_MS - hour)) == Wait(NOW_MS + 2_000)
    step = target.next(when(NOW_MS + 2_000, NOW_MS - hour))
    assert isinstance(step, Send)
    target.answered(step, GOOD, when(NOW_MS + 2_000), 1.0)
    assert isinstance(target.next(when(NOW_MS + 60_000, NOW_MS - hour)), Resend)
    target.resent(GOOD, when(NOW_MS + 60_000), 0.0)
    target.accept(at(2, an_alert("c")), when(NOW_MS + 60_000, NOW_MS + 7 * hour))
    assert isinstance(target.next(when(NOW_MS + 60_000, NOW_MS + 7 * hour)), Send)
    assert len(target.dead) == 0


def test_what_was_on_the_topic_before_we_came_has_its_age_then_ages_by_the_steady_clock() -> None:
    """By append time when it is read; what comes later has none."""
    target = a_target(age_max_s=10, ends={0: 1}, retry_initial_s=1)
    target.accept(at(0, an_alert("a"), appended_ms=NOW_MS - 4_000), when(5, NOW_MS))
    target.accept(at(1, an_alert("b"), appended_ms=NOW_MS - 90_000), when(5, NOW_MS))

    for at_ms in (5, 6_004):
        first, second = target.next(when(at_ms, 0)), target.next(when(at_ms, 0))
        assert isinstance(first, Send)
        assert isinstance(second, Send)
        for one in (first, second):
            target.answered(one, BROKEN, when(at_ms, 0), 0.0)
    assert isinstance(target.next(when(8_005, 0)), Send)
    assert [one.delivery.fingerprint for one in target.dead] == ["a"]


def test_the_end_of_a_mute_is_a_time_of_day() -> None:
    """Waited for by the steady clock from what the wall clock says now."""
    target = a_target()
    feed(target, an_alert("a", **MUTED))

    assert target.next(when(NOW_MS)) == Wait(NOW_MS + 60_000)
    assert target.next(when(NOW_MS + 5, NOW_MS + 59_000)) == Wait(NOW_MS + 1_005)
    assert isinstance(target.next(when(NOW_MS + 6, NOW_MS + 60_000)), Send)


ELSEWHERE = {"labels": {"host": "h9"}}


def test_the_end_of_an_alert_that_no_longer_matches_is_told_over_a_restart() -> None:
    """What the target knows beyond its filter is kept with its place, for as long as it is open."""
    settings: dict[str, Any] = {"match": {"host": ["h1"]}}
    before = a_target(**settings)
    feed(before, an_alert("a"), an_alert("a", 2, "updated", **ELSEWHERE), an_alert("b", **ELSEWHERE), an_alert("c"))
    assert sorted(told(before)) == ["a1", "a2", "c1"]
    place = before.place(0, NOW_MS)
    assert place == Place(4, NOW_MS, ("a",))

    after = a_target(place=place, **settings)
    feed(
        after, an_alert("a", 2, "updated", **ELSEWHERE), an_alert("b", **ELSEWHERE), since=1
    )  # the first was compacted
    after.begin()
    assert after.place(0, NOW_MS) == place
    feed(after, an_alert("a", 3, "resolved", **ELSEWHERE), an_alert("b", 2, "resolved", **ELSEWHERE), since=4)

    assert told(after) == ["a3"]
    assert after.place(0, NOW_MS) == Place(6, NOW_MS)


@pytest.mark.parametrize(("released_ms", "expected"), [(0, ["a3"]), (NEW, [])])
def test_what_the_history_shows_as_asked_for_once_was_told(released_ms: int, expected: list[str]) -> None:
    """Also where the place does not say so; a target that is new was told nothing."""
    target = a_target(place=Place(2, released_ms), match={"host": ["h1"]})
    feed(target, an_alert("a"), an_alert("a", 2, "updated", **ELSEWHERE))
    target.begin()
    feed(target, an_alert("a", 3, "resolved", **ELSEWHERE), since=2)

    assert told(target) == expected


def test_an_alert_of_an_earlier_life_says_nothing_about_this_one() -> None:
    """It matched, ended, and came again elsewhere: this target was never told of that."""
    target = a_target(place=Place(3, 0), match={"host": ["h1"]})
    feed(target, an_alert("a"), an_alert("a", 2, "resolved"), an_alert("a", **ELSEWHERE))
    target.begin()
    feed(target, an_alert("a", 2, "resolved", **ELSEWHERE), since=3)

    assert told(target) == []


def test_a_tombstone_is_forgotten_and_open_alerts_beyond_the_limit_are_not_kept() -> None:
    """What was told and is gone from the topic is not told again."""
    target = a_target("alertmanager", place=Place(3, 0), open_max=1)
    feed(target, an_alert("a"), an_alert("b"), an_alert("c"))
    target.forget("a", 0, 3)
    target.begin()

    assert (target.open, target.counts["not_kept"], target.place(0, NOW_MS).offset) == (1, 1, 4)


life = st.lists(
    st.tuples(st.sampled_from("abc"), st.booleans(), st.sampled_from([None, 500, 5_000])), min_size=1, max_size=25
)


@given(life, st.lists(st.sampled_from([GOOD, BUSY, BROKEN, NO, Answer(0)]), max_size=40), st.integers(1, 4))
def test_books_balance_and_order_holds_for_any_answers(
    records: list[tuple[str, bool, int | None]], answers: list[Answer], parallel: int
) -> None:
    """Every transition is delivered, undelivered or held back by a mute; numbers of an alert never go back."""
    target = a_target(parallel_max=parallel, retry_initial_s=0.1, retry_max_s=1)
    numbers = dict.fromkeys("abc", 0)
    for offset, (name, ends, muted) in enumerate(records):
        numbers[name] += 1
        fields = {"muted_until_ms": None if muted is None else NOW_MS + muted}
        alert = an_alert(name, numbers[name], "resolved" if ends else "updated", **fields)
        target.accept(at(offset, alert), when(NOW_MS))
    out: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    left, now_ms, under_way = list(answers), NOW_MS, []
    for _ in range(2_000):
        step = target.next(when(now_ms))
        if isinstance(step, Send):
            under_way.append(step)
            continue
        if under_way:
            one = under_way.pop()
            answer = left.pop() if left else GOOD
            if answer is GOOD:
                out[one.delivery.fingerprint].append(one.delivery.transition.alert.number)
            target.answered(one, answer, when(now_ms), 0.5)
        elif isinstance(step, Wait) and step.until_ms is not None:
            now_ms = max(now_ms, step.until_ms)
        else:
            break
    while target.dead:
        target.buried(target.dead.popleft())

    counts = target.counts
    assert counts["taken"] == counts["delivered"] + counts["undelivered"] + counts["held"]
    assert target.waiting == 0
    assert all(found == sorted(set(found)) for found in out.values())
    assert target.place(0, now_ms) == Place(len(records), now_ms)
