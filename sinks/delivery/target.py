"""What one target is sent and when: a pure state machine. Times and chance are arguments; the sender posts.

Two clocks: pauses go by the monotonic one, so that a clock that is set neither stops nor ends anything. Silences, and
the age of what was on the topic before this process came, go by the time of day.

Rules:

- a transition is sent when the target's filter matches its severity and labels, or when the target was notified of the
  alert before: who was notified of the beginning is notified of the end;
- transitions of one alert go out one after the other, those of different alerts side by side;
- while the newest transition of an alert is silenced, none of it goes out. Silenced and still open when the silence
  ends: the transition that says so goes out, or its newest one where none comes. Resolved in the silence: only who was
  notified before is notified of the end. A target that ``acknowledges`` gets an acknowledgement;
- what is not delivered is tried again with back-off, unless the target rejects the message itself; no response,
  overload, a wrong address or token are the target's failure and make everything wait (``schedule.Response``);
- what is too old, rejected or displaced goes to ``undelivered``, in the order in which it was given up. An alert whose
  end was given up is open no more: it is not sent again as firing.

The caller: ``accept`` for every record from the topic's beginning, ``begin`` once what was on the topic at the start
was read, then ``next`` whenever something happened or the time has come that it returned.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runtime.backoff import Backoff
from runtime.delivery_config import TargetConfig
from schemas.contract.alerts import Alert
from sinks.delivery.backlog import Backlog, Delivery, Send, Undelivered
from sinks.delivery.cursor import NEW, Cursor, Progress
from sinks.delivery.history import History
from sinks.delivery.renotify import Notified
from sinks.delivery.schedule import Bucket, Moment, Response, Verdict
from sinks.delivery.shapes import SHAPES
from sinks.delivery.transition import Transition

RELEASE_MS = 60_000
"""The alert job says that a silence ended, some seconds late, and how the alert stands then. A target is sent that
alone; what was known before only when nothing came for so long."""


@dataclass(frozen=True, slots=True)
class Resend:
    """Send all of these again."""

    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before then, by the monotonic clock; None: before something happens."""

    until_ms: int | None


class Target:
    """State of one target. ``counts``: taken = delivered + undelivered + silenced + waiting. ``ends``: where the topic
    ended when this process came, by partition; what is older has an age already."""

    def __init__(
        self,
        config: TargetConfig,
        cursors: Mapping[int, Cursor],
        open_max: int,
        now: Moment,
        ends: Mapping[int, int] | None = None,
    ) -> None:
        self.config = config
        self.counts: Counter[str] = Counter()
        self.undelivered: deque[Undelivered] = deque()
        self._shape = SHAPES[config.kind]
        self._backoff = Backoff(config.retry_initial_s, config.retry_max_s)
        self._cursors = dict(cursors)
        self._ends = dict(ends or {})
        self._progress = {partition: Progress(cursor.offset) for partition, cursor in cursors.items()}
        self._backlog = Backlog()
        self._bucket = Bucket(config.rate, config.burst, now.ms)
        self._history = History(cursors, send_silenced=config.send_silenced)
        self._open_max = open_max
        self._notified = Notified(config, open_max)
        self._acknowledged: set[str] = set()
        self._unsure: set[str] = set()
        self._withheld: dict[str, int] = {}
        self._silenced: dict[str, tuple[Transition, int]] = {}
        self._releasing: dict[str, int] = {}
        self._number = 0
        self._in_flight = 0
        self._failures = 0
        self._paused_ms = 0
        self._resend_ms = now.ms + round(config.resend_s * 1_000)
        self._resending: tuple[Transition, ...] = ()

    # Records of the topic

    def accept(self, transition: Transition, now: Moment) -> None:
        """A record of the topic, in order of offsets within each partition."""
        alert, progress = transition.alert, self._progress[transition.partition]
        if transition.offset < progress.start:
            self._history.remember(transition, matches=self._matches(alert))
            return
        self._settle(alert.fingerprint)
        progress.read(transition.offset)
        self._silenced.pop(alert.fingerprint, None)
        if not self._wants(alert):
            return
        self.counts["taken"] += 1
        progress.begin(transition.offset)
        old = transition.offset < self._ends.get(transition.partition, 0)
        age_ms = max(0, now.wall_ms - transition.appended_ms) if old else 0
        self._add(transition, age_ms, transition.appended_ms, now, fresh=True)
        while len(self._backlog) > self.config.queue_max and (oldest := self._backlog.oldest()) is not None:
            detail = f"more than queue_max = {self.config.queue_max} wait for this target"
            self._give_up(oldest, "queue_full", detail, now)

    def forget(self, fingerprint: str, partition: int, offset: int) -> None:
        """A tombstone: the alert is no more on the topic. What waits is still delivered."""
        self._history.forget(fingerprint)
        self._silenced.pop(fingerprint, None)
        self._notified.forget(fingerprint)
        self._now_known(fingerprint)
        self._progress[partition].read(offset)

    def skip(self, partition: int, offset: int) -> None:
        """A record that was rejected."""
        self._progress[partition].read(offset)

    def begin(self) -> None:
        """Everything before this target's cursor was read: what is open there was sent, or is still to be sent."""
        for fingerprint in self._history:
            self._settle(fingerprint)
        if len(self._notified):
            self._resend_ms = 0  # nobody sent them again while this process was away

    def _settle(self, fingerprint: str) -> None:
        """What was open before the cursor: it was sent, or is to be sent when its silence ends (0: at once)."""
        past = self._history.pop(fingerprint)
        if past is None:
            return
        transition = past.newest
        cursor = self._cursors[transition.partition]
        known = fingerprint in cursor.unmatched
        handled = known or cursor.released_ms != NEW  # before this process came
        if not (self._matches(transition.alert) or known or (handled and past.matched)):
            return
        until_ms = 0 if self.config.send_silenced else transition.alert.muted_until_ms or 0
        if handled and until_ms <= max(cursor.released_ms, 0):
            self._notify(transition)
            return
        if fingerprint in cursor.withheld or (until_ms and not handled):
            self._withheld[fingerprint] = transition.partition
        elif handled and past.sent is not None:
            self._notify(past.sent)
        elif handled and past.first_number > 1 and not self._shape.expires:
            self._notify(transition)  # it may have been sent before it was silenced: better ended twice than never
        self._silenced[fingerprint] = (transition, until_ms)

    def _matches(self, alert: Alert) -> bool:
        return self.config.matches(alert.severity, alert.rule, alert.labels)

    def _wants(self, alert: Alert) -> bool:
        return alert.fingerprint in self._notified or alert.fingerprint in self._backlog or self._matches(alert)

    def _add(self, transition: Transition, age_ms: int, since_ms: int, now: Moment, *, fresh: bool) -> None:
        self._number += 1
        deadline_ms = now.ms - age_ms + round(self.config.age_max_s * 1_000)
        self._backlog.add(Delivery(transition, self._number, now.ms, deadline_ms, since_ms, fresh))

    # What is to be done

    def next(self, now: Moment) -> Send | Resend | Wait:
        """The next thing to do. ``Send`` and ``Resend`` count as begun: report the response."""
        self._release(now)
        if self._resending or self._in_flight >= self.config.parallel_max:
            return Wait(None)
        if now.ms < self._paused_ms:
            return Wait(self._paused_ms)
        if self._failures and self._in_flight:
            return Wait(None)  # one request finds out whether the target is back
        if self._resend_due(now):
            return Wait(None) if self._in_flight else self._resend(now)
        return self._send(now)

    def _send(self, now: Moment) -> Send | Wait:
        free_ms = self._bucket.free_ms(now.ms)
        while (delivery := self._backlog.head(now.ms)) is not None:
            if now.ms >= delivery.deadline_ms:
                detail = f"not delivered within age_max_s = {self.config.age_max_s:g}"
                self._give_up(delivery, "too_old", detail, now)
                continue
            acknowledge = self._acknowledge(delivery) if self._is_silenced(delivery, now) else False
            if acknowledge is None:
                self._set_aside(delivery)
                continue
            if free_ms > now.ms:
                return Wait(free_ms)
            self._bucket.take()
            self._backlog.start(delivery)
            self._in_flight += 1
            before = self._notified.get(delivery.fingerprint)
            return Send(delivery, acknowledge, before.alert if before else None)
        return Wait(self._next_ms(now))

    def _next_ms(self, now: Moment) -> int | None:
        times = [now.ms + until_ms + RELEASE_MS - now.wall_ms for _, until_ms in self._silenced.values()]
        times += [due_ms] if (due_ms := self._backlog.next_due_ms()) is not None else []
        if self._shape.expires and self._notified.any:
            times.append(self._resend_ms)
        return min(times, default=None)

    def _is_silenced(self, delivery: Delivery, now: Moment) -> bool:
        """By the newest of its lane; what resolved in a silence stays silenced, however late it would go out."""
        newest = self._backlog.last(delivery.fingerprint)
        assert newest is not None
        until_ms = newest.transition.alert.muted_until_ms
        if self.config.send_silenced or until_ms is None:
            return False
        return newest.transition.resolved or until_ms + RELEASE_MS > now.wall_ms

    def _acknowledge(self, delivery: Delivery) -> bool | None:
        """Of a silenced delivery. False: send it all the same. True: send an acknowledgement. None: send nothing. Whose
        beginning may have come through although no response did is notified of the end: better twice than never."""
        notified = self._is_notified(delivery.fingerprint)
        if delivery.transition.resolved:
            return False if notified else None
        if self._shape.acknowledges and notified and delivery.fingerprint not in self._acknowledged:
            return True
        return None

    def _is_notified(self, fingerprint: str) -> bool:
        return fingerprint in self._notified or fingerprint in self._unsure

    def _now_known(self, fingerprint: str) -> None:
        """The target has its newest state, or need not have it."""
        self._unsure.discard(fingerprint)
        self._withheld.pop(fingerprint, None)

    def _set_aside(self, delivery: Delivery) -> None:
        """Not sent, and done with; the newest of an open alert is remembered for the end of its silence."""
        transition = delivery.transition
        if self._backlog.last(delivery.fingerprint) is delivery and not transition.resolved:
            self._silenced[delivery.fingerprint] = (transition, transition.alert.muted_until_ms or 0)
        if transition.resolved:
            self._now_known(delivery.fingerprint)
        elif transition.alert.muted_until_ms is None and not self._is_notified(delivery.fingerprint):
            self._withheld[delivery.fingerprint] = transition.partition
        self.counts["silenced"] += 1
        self._finish(delivery)

    def _release(self, now: Moment) -> None:
        """Silences that ended, unless a transition said so meanwhile, which is sent instead of what was known then."""
        for fingerprint, (transition, until_ms) in list(self._silenced.items()):
            if until_ms + RELEASE_MS <= now.wall_ms:
                del self._silenced[fingerprint]
                self._releasing[fingerprint] = until_ms
                self.counts["taken"] += 1
                self._add(transition, 0, until_ms or now.wall_ms, now, fresh=False)

    # What came of it

    def responded(self, send: Send, response: Response, now: Moment, draw: float) -> None:
        """The target responded, or did not. ``draw`` in [0, 1) spreads the pause."""
        self._in_flight -= 1
        delivery = send.delivery
        if response.verdict is Verdict.RETRY:
            delivery.attempts += 1
            self.counts["retried"] += 1
            if response.maybe_taken and len(self._unsure) < self._open_max:
                self._unsure.add(delivery.fingerprint)
            self._backlog.retry(delivery, now.ms + self._pause_ms(delivery.attempts, response, draw))
            self._failed(response, now, draw)
            return
        self._failures, self._paused_ms = 0, 0
        if response.verdict is Verdict.REJECTED:
            self._give_up(delivery, "rejected", f"status {response.status}: {response.detail}", now)
        elif send.acknowledge:
            self._acknowledged.add(delivery.fingerprint)
            self._set_aside(delivery)
        else:
            self.counts["delivered"] += 1
            self._acknowledged.discard(delivery.fingerprint)
            self._now_known(delivery.fingerprint)
            self.counts["over_limit"] += not self._notified.delivered(delivery.transition, now)
            self._finish(delivery)

    def _pause_ms(self, failures: int, response: Response, draw: float) -> int:
        return max(1, round(self._backoff.pause_s(failures, draw) * 1_000), response.retry_after_ms or 0)

    def _failed(self, response: Response, now: Moment, draw: float) -> None:
        """A failure of the target makes everything wait."""
        if response.of_target:
            self._failures += 1
            self._paused_ms = now.ms + self._pause_ms(self._failures, response, draw)

    def _notify(self, transition: Transition) -> None:
        self.counts["over_limit"] += not self._notified.remember(transition)

    def _give_up(self, delivery: Delivery, reason: str, detail: str, now: Moment) -> None:
        self._withheld.pop(delivery.fingerprint, None)
        if delivery.transition.resolved and delivery.fingerprint in self._notified:
            if reason == "rejected":
                self._notified.forget(delivery.fingerprint)  # nor would it be taken when it is sent again
            else:
                self._notified.end(delivery.transition, now)
        self._backlog.remove(delivery)
        self.undelivered.append(Undelivered(delivery, reason, detail))

    def published(self, undelivered: Undelivered) -> None:
        """It is on the topic of undelivered transitions."""
        self.counts["undelivered"] += 1
        self._done(undelivered.delivery)

    def _finish(self, delivery: Delivery) -> None:
        self._backlog.remove(delivery)
        self._done(delivery)

    def _done(self, delivery: Delivery) -> None:
        if delivery.again:
            return  # its offset was passed when it was delivered
        if delivery.fresh:
            self._progress[delivery.transition.partition].finish(delivery.transition.offset)
        else:
            self._releasing.pop(delivery.fingerprint, None)

    # Sending open alerts again

    def _resend_due(self, now: Moment) -> bool:
        return self._shape.expires and now.ms >= self._resend_ms and self._notified.any

    def _resend(self, now: Moment) -> Send | Resend | Wait:
        self._resend_ms = now.ms + round(self.config.resend_s * 1_000)
        due = self._notified.due_notifications(now)
        self._resending = tuple(one for one in due if not self._end_waits(one.alert.fingerprint))
        return Resend(self._resending) if self._resending else self._send(now)

    def _end_waits(self, fingerprint: str) -> bool:
        """Whether the newest that is still to go out is its end: sent again before that, it would fire once more."""
        newest = self._backlog.last(fingerprint)
        return newest is not None and newest.transition.resolved

    def resent(
        self, response: Response, now: Moment, draw: float, failing: Sequence[tuple[Transition, Response]] = ()
    ) -> None:
        """Everything but ``failing`` was sent again, and those are excluded for a while; or it failed, and is tried
        again soon."""
        resent, self._resending = self._resending, ()
        for transition, why in failing:
            self._exclude(transition, why, now)
        if response.verdict is not Verdict.DELIVERED:
            self._failed(response, now, draw)
            self._resend_ms = min(self._resend_ms, max(self._paused_ms, now.ms + self._pause_ms(1, response, draw)))
            return
        self._failures, self._paused_ms = 0, 0
        for fingerprint in {one.alert.fingerprint for one in resent} - {one.alert.fingerprint for one, _ in failing}:
            self._notified.include(fingerprint)

    def _exclude(self, transition: Transition, why: Response, now: Moment) -> None:
        """Not sent again for a while; what is rejected goes to ``undelivered``, the first time."""
        self.counts["excluded"] += 1
        if self._notified.exclude(transition.alert.fingerprint, now) and why.verdict is Verdict.REJECTED:
            self._number += 1
            self.counts["taken"] += 1
            delivery = Delivery(transition, self._number, now.ms, now.ms, now.wall_ms, fresh=False, again=True)
            self.undelivered.append(Undelivered(delivery, "rejected", f"sent again, status {why.status}: {why.detail}"))

    # How far it has come

    def cursor(self, partition: int, wall_ms: int) -> Cursor:
        """What has to be committed so that a crash loses nothing."""
        ends = [*self._releasing.values(), *(end for _, end in self._silenced.values() if end <= wall_ms)]
        released_ms = min((wall_ms, *(end - 1 for end in ends)))
        withheld = tuple(name for name, where in self._withheld.items() if where == partition)
        unmatched = dict.fromkeys((*self._notified.unmatched(partition), *self._ends_given_up(partition)))
        return Cursor(self._progress[partition].offset, released_ms, tuple(unmatched), withheld)

    def _ends_given_up(self, partition: int) -> Iterator[str]:
        """Alerts whose end is still to be published and does not match: a restart has to take it once more."""
        for transition in (one.delivery.transition for one in self.undelivered):
            if transition.resolved and transition.partition == partition and not self._matches(transition.alert):
                yield transition.alert.fingerprint

    @property
    def waiting(self) -> int:
        """Deliveries not yet done with, those given up and not yet published included."""
        return len(self._backlog) + len(self.undelivered)

    @property
    def open(self) -> int:
        """Open alerts that the target was notified of."""
        return len(self._notified)

    def oldest_ms(self) -> int | None:
        """Since when the oldest transition waits, that one too which is being sent; None without."""
        oldest = self._backlog.first()
        return oldest.since_ms if oldest else None
