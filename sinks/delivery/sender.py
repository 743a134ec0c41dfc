"""The loop of one target: does what its state says is due, and publishes what was given up."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from runtime.clock import Clock
from runtime.counters import COUNTERS
from runtime.runbook import Cause
from sinks.delivery.backlog import Send, Undelivered
from sinks.delivery.client import UNSENDABLE, Client
from sinks.delivery.renotify import Round
from sinks.delivery.request import Request
from sinks.delivery.schedule import Moment, Response, Verdict
from sinks.delivery.shapes import renotify_request_of, request_of
from sinks.delivery.target import Resend, Target, Wait

_log = logging.getLogger(__name__)
_COUNTED = ("taken", "delivered", "silenced", "retried", "excluded", "over_limit")
_GAUGES = ("deliver_waiting", "deliver_oldest_ms", "deliver_open")

Publish = Callable[[str, Undelivered], Awaitable[None]]


def moment_of(clock: Clock) -> Moment:
    """Now, by both clocks."""
    return Moment(int(clock.monotonic_s() * 1_000), clock.now_ms())


def count_nothing(targets: Iterable[str]) -> None:
    """Of these targets nothing waits here: somebody else serves them, and what did would be said of them for ever."""
    for name, target in itertools.product(_GAUGES, targets):
        COUNTERS.set(name, 0, target=target)


class Sender:
    """Serves one target until cancelled. ``wake`` it whenever its state changed."""

    def __init__(self, target: Target, client: Client, publish: Publish, clock: Clock) -> None:
        self.target = target
        self.name = target.config.name
        self._client = client
        self._publish = publish
        self._clock = clock
        self._awake = asyncio.Event()
        self._posting: set[asyncio.Task[None]] = set()
        self._counted: Counter[str] = Counter()
        self._draw = random.random
        self.misconfigured: str | None = None
        """What is wrong with the target's settings; None while nothing is known to be."""
        self.failing: str | None = None
        """What the target's last response was, where it took nothing."""
        self._defect: BaseException | None = None

    def wake(self) -> None:
        """Look again what is due."""
        self._awake.set()

    async def run(self) -> None:
        """Serve until cancelled; what is in flight then continues (``drain``). Raises what a request raised: a bug."""
        while True:
            if self._defect is not None:
                raise self._defect
            self._awake.clear()
            step = self.target.next(moment_of(self._clock))
            while self.target.undelivered:
                undelivered = self.target.undelivered[0]
                await self._publish(self.name, undelivered)
                self.target.undelivered.popleft()
                self.target.published(undelivered)
            if isinstance(step, Wait):
                await self._wait(step)
            else:
                self._begin(step)

    async def drain(self, within_s: float) -> None:
        """Let what is in flight end, then cancel it: without a response it counts as not sent."""
        if self._posting and within_s:
            await asyncio.wait(self._posting, timeout=within_s)
        for task in tuple(self._posting):
            task.cancel()
        await asyncio.gather(*self._posting, return_exceptions=True)

    def update_counters(self) -> None:
        """Bring the counters up to the state."""
        target = self.target
        for what in _COUNTED:
            COUNTERS.add("deliver_transitions", target.counts[what] - self._counted[what], target=self.name, what=what)
        self._counted = Counter(target.counts)
        oldest_ms = target.oldest_ms()
        age_ms = 0 if oldest_ms is None else max(0, self._clock.now_ms() - oldest_ms)
        for name, value in zip(_GAUGES, (target.waiting, age_ms, target.open), strict=True):
            COUNTERS.set(name, value, target=self.name)

    async def _wait(self, step: Wait) -> None:
        pause_s = None if step.until_ms is None else max(0.0, (step.until_ms - moment_of(self._clock).ms) / 1_000)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(
                pause_s
            ):  # wait_for of Python 3.11 loses a cancellation that comes with the event
                await self._awake.wait()

    def _begin(self, step: Send | Resend) -> None:
        task = asyncio.create_task(self._send(step) if isinstance(step, Send) else self._resend(step))
        self._posting.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._posting.discard(task)
        if not task.cancelled() and self._defect is None:
            self._defect = task.exception()
        self.wake()

    async def _send(self, send: Send) -> None:
        response = await self._post(partial(request_of, self.target.config, send))
        self.target.responded(send, response, moment_of(self._clock), self._draw())

    async def _resend(self, resend: Resend) -> None:
        batches = Round(resend.transitions)
        while (batch := batches.next()) is not None:
            alerts = [one.alert for one in batch]
            batches.responded(await self._post(partial(renotify_request_of, self.target.config, alerts)))
        self.target.resent(batches.outcome, moment_of(self._clock), self._draw(), batches.failing)

    async def _post(self, make: Callable[[int], Request]) -> Response:
        try:
            request = make(self._clock.now_ms())
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            return Response(UNSENDABLE, f"cannot be put in this shape: {error!r}")
        response = await self._client.post(request)
        COUNTERS.add("deliver_requests", target=self.name, status=response.status or "none")
        self._note(response)
        return response

    def _note(self, response: Response) -> None:
        """One line when a target begins to fail and one when it recovers, none per request."""
        if response.misconfigured:
            self.misconfigured = f"target {self.name} responds {response.status}: check its address and token"
        elif response.status:
            self.misconfigured = None
        failing = response.verdict is Verdict.RETRY  # what is rejected is one message's fault, and given up
        if failing and self.failing is None:
            facts = {"target": self.name, "status": response.status, "response": response.detail}
            _log.warning("target does not accept alerts; retrying", extra={**facts, "cause": Cause.DELIVERY})
        elif self.failing and not failing:
            _log.info("target accepts alerts again", extra={"target": self.name})
        self.failing = f"{Cause.DELIVERY}: {self.name} responds {response.status or 'nothing'}" if failing else None
