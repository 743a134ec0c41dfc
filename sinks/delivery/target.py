"""What one target is told and when: a pure state machine. Times and chance are arguments; the shell sends.

Two clocks: what waits, waits by the monotonic one, so that a clock that is set neither stops nor ends anything. Mutes,
and the age of what was on the topic before we came, go by the time of day.

Rules:

- a transition goes out when severity and labels are those asked for, or when the target knows the alert already: who
  was told that something began is told that it ended;
- transitions of one alert go out one after the other, those of different alerts side by side;
- while the newest transition of an alert says muted, none of it goes out. Muted and still open when the mute ends: its
  newest transition goes out then. Resolved meanwhile: only who knew of it is told. PagerDuty gets an acknowledgement;
- what is not delivered is tried again, after pauses that double, unless the target refuses the message itself; silence,
  overload, a wrong address or token are the target's trouble and make everything wait (``schedule.Answer``);
- what is too old, refused or displaced goes to ``dead``, in the order in which it was given up.

The shell: ``accept`` for every record from the topic's beginning, ``begin`` once the records before the target's
place were read, then ``next`` whenever something happened or the time has come that it named.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runtime.delivery_config import TargetConfig
from schemas.alerts import Alert
from sinks.delivery.backlog import Backlog, Delivery, Transition
from sinks.delivery.known import Known
from sinks.delivery.place import NEW, Place, Progress
from sinks.delivery.schedule import Answer, Bucket, Moment, Verdict, pause_ms


@dataclass(frozen=True, slots=True)
class Send:
    """Post this delivery. ``before``: what the target was told last of this alert."""

    delivery: Delivery
    acknowledge: bool = False
    before: Alert | None = None


@dataclass(frozen=True, slots=True)
class Resend:
    """Tell all of these again."""

    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before then, by the monotonic clock; None: before something happens."""

    until_ms: int | None


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A delivery that was given up. ``reason``: refused, too_old or queue_full."""

    delivery: Delivery
    reason: str
    detail: str


class Target:
    """State of one target. ``counts``: taken = delivered + undelivered + held + waiting. ``ends``: where the topic
    ended when we came, by partition; what is older has an age already."""

    def __init__(
        self,
        config: TargetConfig,
        places: Mapping[int, Place],
        open_max: int,
        now: Moment,
        ends: Mapping[int, int] | None = None,
    ) -> None:
        self.config = config
        self.counts: Counter[str] = Counter()
        self.dead: deque[Undelivered] = deque()
        self._places = dict(places)
        self._ends = dict(ends or {})
        self._progress = {partition: Progress(place.offset) for partition, place in places.items()}
        self._backlog = Backlog()
        self._bucket = Bucket(config.rate, config.burst, now.ms)
        self._history: dict[str, Transition] = {}
        self._matched: set[str] = set()
        self._known = Known(config, open_max)
        self._acknowledged: set[str] = set()
        self._held: dict[str, tuple[Transition, int]] = {}
        self._releasing: dict[str, int] = {}
        self._number = 0
        self._under_way = 0
        self._failures = 0
        self._paused_ms = 0
        self._resend_ms = now.ms + round(config.resend_s * 1_000)
        self._retold: tuple[Transition, ...] = ()

    # What the topic says

    def accept(self, transition: Transition, now: Moment) -> None:
        """A record of the topic, in order of offsets within each partition."""
        alert, progress = transition.alert, self._progress[transition.partition]
        if transition.offset < progress.start:
            self._remember(transition)
            return
        self._settle(alert.fingerprint)
        progress.read(transition.offset)
        self._held.pop(alert.fingerprint, None)
        if not self._wants(alert):
            return
        self.counts["taken"] += 1
        progress.begin(transition.offset)
        old = transition.offset < self._ends.get(transition.partition, 0)
        self._add(transition, max(0, now.wall_ms - transition.appended_ms) if old else 0, now, fresh=True)
        while len(self._backlog) > self.config.queue_max and (oldest := self._backlog.oldest()) is not None:
            self._give_up(oldest, "queue_full", f"more than queue_max = {self.config.queue_max} wait for this target")

    def forget(self, fingerprint: str, partition: int, offset: int) -> None:
        """A tombstone: the alert is no more on the topic. What waits is still delivered."""
        self._history.pop(fingerprint, None)
        self._held.pop(fingerprint, None)
        self._matched.discard(fingerprint)
        self._known.forget(fingerprint)
        self._progress[partition].read(offset)

    def skip(self, partition: int, offset: int) -> None:
        """A record that says nothing readable."""
        self._progress[partition].read(offset)

    def begin(self) -> None:
        """Everything before this target's place was read: what is open there is known or still to be told."""
        for fingerprint in list(self._history):
            self._settle(fingerprint)
        if len(self._known):
            self._resend_ms = 0  # nobody kept them alive while we were away

    def _remember(self, transition: Transition) -> None:
        alert = transition.alert
        if transition.resolved:
            self._history.pop(alert.fingerprint, None)
            self._matched.discard(alert.fingerprint)
            return
        self._history[alert.fingerprint] = transition
        if self._matches(alert):
            self._matched.add(alert.fingerprint)

    def _settle(self, fingerprint: str) -> None:
        """What was open before our place: told, or held back until its mute ends (0: to be told at once)."""
        transition = self._history.pop(fingerprint, None)
        matched = fingerprint in self._matched
        self._matched.discard(fingerprint)
        if transition is None:
            return
        place = self._places[transition.partition]
        if not self._matches(transition.alert) and (
            place.released_ms == NEW or not (matched or fingerprint in place.known)
        ):
            return
        until_ms = 0 if self.config.send_muted else transition.alert.muted_until_ms or 0
        if until_ms <= place.released_ms:
            self._keep(transition)
            return
        if place.released_ms != NEW and transition.alert.number > 1:
            self._keep(transition)  # it may have been told before it was muted: better ended twice than never
        self._held[fingerprint] = (transition, until_ms)

    def _matches(self, alert: Alert) -> bool:
        return self.config.asks_for(alert.severity, alert.labels)

    def _wants(self, alert: Alert) -> bool:
        known = alert.fingerprint in self._known or alert.fingerprint in self._backlog
        return known or self._matches(alert)

    def _add(self, transition: Transition, age_ms: int, now: Moment, *, fresh: bool) -> None:
        self._number += 1
        deadline_ms = now.ms - age_ms + round(self.config.age_max_s * 1_000)
        self._backlog.add(Delivery(transition, self._number, now.ms, deadline_ms, fresh))

    # What is to be done

    def next(self, now: Moment) -> Send | Resend | Wait:
        """The next thing to do. ``Send`` and ``Resend`` count as begun: answer them."""
        self._release(now)
        if self._retold or self._under_way >= self.config.parallel_max:
            return Wait(None)
        if now.ms < self._paused_ms:
            return Wait(self._paused_ms)
        if self._failures and self._under_way:
            return Wait(None)  # one request finds out whether the target is back
        if self._resend_due(now):
            return Wait(None) if self._under_way else self._resend(now)
        return self._send(now)

    def _send(self, now: Moment) -> Send | Wait:
        free_ms = self._bucket.free_ms(now.ms)
        while (delivery := self._backlog.head(now.ms)) is not None:
            if now.ms >= delivery.deadline_ms:
                self._give_up(delivery, "too_old", f"not delivered within age_max_s = {self.config.age_max_s:g}")
                continue
            acknowledge = self._held_back(delivery, now)
            if acknowledge is None:
                self._set_aside(delivery)
                continue
            if free_ms > now.ms:
                return Wait(free_ms)
            self._bucket.take()
            self._backlog.start(delivery)
            self._under_way += 1
            before = self._known.get(delivery.fingerprint)
            return Send(delivery, acknowledge, before.alert if before else None)
        return Wait(self._wake_ms(now))

    def _wake_ms(self, now: Moment) -> int | None:
        times = [now.ms + until_ms - now.wall_ms for _, until_ms in self._held.values()]
        times += [due_ms] if (due_ms := self._backlog.next_due_ms()) is not None else []
        if self.config.kind == "alertmanager" and self._known.any:
            times.append(self._resend_ms)
        return min(times, default=None)

    def _held_back(self, delivery: Delivery, now: Moment) -> bool | None:
        """False: send it. None: it is muted. True: it is muted, and that is to be told as an acknowledgement."""
        newest = self._backlog.last(delivery.fingerprint)
        assert newest is not None
        until_ms = newest.transition.alert.muted_until_ms
        if self.config.send_muted or until_ms is None or until_ms <= now.wall_ms:
            return False
        known = delivery.fingerprint in self._known
        if delivery.transition.resolved:
            return False if known else None
        if self.config.kind == "pagerduty" and known and delivery.fingerprint not in self._acknowledged:
            return True
        return None

    def _set_aside(self, delivery: Delivery) -> None:
        """Not sent, and done with; the newest of an open alert is remembered for the end of its mute."""
        transition = delivery.transition
        if self._backlog.last(delivery.fingerprint) is delivery and not transition.resolved:
            self._held[delivery.fingerprint] = (transition, transition.alert.muted_until_ms or 0)
        self.counts["held"] += 1
        self._finish(delivery)

    def _release(self, now: Moment) -> None:
        for fingerprint, (transition, until_ms) in list(self._held.items()):
            if until_ms <= now.wall_ms:
                del self._held[fingerprint]
                self._releasing[fingerprint] = until_ms
                self.counts["taken"] += 1
                self._add(transition, 0, now, fresh=False)

    # What came of it

    def answered(self, send: Send, answer: Answer, now: Moment, draw: float) -> None:
        """The target answered, or did not. ``draw`` in [0, 1) spreads the pause."""
        self._under_way -= 1
        delivery = send.delivery
        if answer.verdict is Verdict.AGAIN:
            delivery.attempts += 1
            self.counts["retried"] += 1
            self._backlog.again(delivery, now.ms + self._pause_ms(delivery.attempts, answer, draw))
            self._failed(answer, now, draw)
            return
        self._failures, self._paused_ms = 0, 0
        if answer.verdict is Verdict.REFUSED:
            self._give_up(delivery, "refused", f"status {answer.status}: {answer.detail}")
        elif send.acknowledge:
            self._acknowledged.add(delivery.fingerprint)
            self._set_aside(delivery)
        else:
            self.counts["delivered"] += 1
            self._acknowledged.discard(delivery.fingerprint)
            if not self._known.heard(delivery.transition, now):
                self.counts["not_kept"] += 1
            self._finish(delivery)

    def _pause_ms(self, failures: int, answer: Answer, draw: float) -> int:
        config = self.config
        pause = pause_ms(failures, config.retry_initial_s * 1_000, config.retry_max_s * 1_000, draw)
        return max(pause, answer.retry_after_ms or 0)

    def _failed(self, answer: Answer, now: Moment, draw: float) -> None:
        """Trouble of the target makes everything wait."""
        if answer.targets_own:
            self._failures += 1
            self._paused_ms = now.ms + self._pause_ms(self._failures, answer, draw)

    def _keep(self, transition: Transition) -> None:
        if not self._known.keep(transition):
            self.counts["not_kept"] += 1

    def _give_up(self, delivery: Delivery, reason: str, detail: str) -> None:
        self._backlog.remove(delivery)
        self.dead.append(Undelivered(delivery, reason, detail))

    def buried(self, undelivered: Undelivered) -> None:
        """It is on the topic of undelivered transitions."""
        self.counts["undelivered"] += 1
        self._done(undelivered.delivery)

    def _finish(self, delivery: Delivery) -> None:
        self._backlog.remove(delivery)
        self._done(delivery)

    def _done(self, delivery: Delivery) -> None:
        if delivery.again:
            return  # its place was passed when it was delivered
        if delivery.fresh:
            self._progress[delivery.transition.partition].finish(delivery.transition.offset)
        else:
            self._releasing.pop(delivery.fingerprint, None)

    # Telling again

    def _resend_due(self, now: Moment) -> bool:
        return self.config.kind == "alertmanager" and now.ms >= self._resend_ms and self._known.any

    def _resend(self, now: Moment) -> Send | Resend | Wait:
        self._resend_ms = now.ms + round(self.config.resend_s * 1_000)
        self._retold = self._known.again(now)
        return Resend(self._retold) if self._retold else self._send(now)

    def resent(
        self, answer: Answer, now: Moment, draw: float, culprits: Sequence[tuple[Transition, Answer]] = ()
    ) -> None:
        """The target was told again but for ``culprits``, which are left out for a while; or it was not, and is tried
        again soon."""
        retold, self._retold = self._retold, ()
        for transition, why in culprits:
            self._leave_out(transition, why, now)
        if answer.verdict is not Verdict.DELIVERED:
            self._failed(answer, now, draw)
            self._resend_ms = min(self._resend_ms, max(self._paused_ms, now.ms + self._pause_ms(1, answer, draw)))
            return
        self._failures, self._paused_ms = 0, 0
        odd = {transition.alert.fingerprint for transition, _ in culprits}
        for transition in retold:
            if transition.alert.fingerprint not in odd:
                self._known.took_again(transition.alert.fingerprint)

    def _leave_out(self, transition: Transition, why: Answer, now: Moment) -> None:
        """Not told again for a while; what is refused goes to ``dead``, the first time."""
        self.counts["left_out"] += 1
        if self._known.leave_out(transition.alert.fingerprint, now) and why.verdict is Verdict.REFUSED:
            self._number += 1
            self.counts["taken"] += 1
            delivery = Delivery(transition, self._number, now.ms, now.ms, fresh=False, again=True)
            self.dead.append(Undelivered(delivery, "refused", f"told again, status {why.status}: {why.detail}"))

    # How far it is

    def place(self, partition: int, wall_ms: int) -> Place:
        """What has to be kept so that nothing is lost by a crash."""
        ends = [*self._releasing.values(), *(end for _, end in self._held.values() if end <= wall_ms)]
        released_ms = min((wall_ms, *(end - 1 for end in ends)))
        return Place(self._progress[partition].at, released_ms, self._known.odd(partition))

    @property
    def waiting(self) -> int:
        """Deliveries not yet done with, those given up and not yet written down included."""
        return len(self._backlog) + len(self.dead)

    @property
    def open(self) -> int:
        """Open alerts that the target knows."""
        return len(self._known)

    @property
    def under_way(self) -> int:
        """Requests not answered yet."""
        return self._under_way + bool(self._retold)

    def oldest_ms(self) -> int | None:
        """Append time of the oldest transition that waits; None without."""
        oldest = self._backlog.oldest()
        return oldest.transition.appended_ms if oldest else None
