"""The loop of one target: asks its state what is due, posts it, puts what was given up on the topic of those."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

from runtime.clock import Clock
from runtime.counters import COUNTERS
from sinks.delivery.client import Client
from sinks.delivery.retelling import Retelling
from sinks.delivery.schedule import Answer, Moment, Verdict
from sinks.delivery.shaping import Post, post_again, post_of
from sinks.delivery.target import Resend, Send, Target, Undelivered, Wait

_log = logging.getLogger(__name__)
UNSHAPED = 400
"""In place of an answer, when a transition cannot be put in the target's shape: trying again would not help."""

Bury = Callable[[str, Undelivered], Awaitable[None]]


def moment_of(clock: Clock) -> Moment:
    """Now, by both clocks."""
    return Moment(int(clock.monotonic_s() * 1_000), clock.now_ms())


class Sender:
    """Serves one target until ``stop``. Wake it whenever its state was told something."""

    def __init__(self, target: Target, client: Client, bury: Bury, clock: Clock) -> None:
        self.target = target
        self.name = target.config.name
        self._client = client
        self._bury = bury
        self._clock = clock
        self._awake = asyncio.Event()
        self._posting: set[asyncio.Task[None]] = set()
        self._counted: Counter[str] = Counter()
        self._draw = random.random
        self._down = False
        self.turned_away: str | None = None
        """What is wrong with the target's settings; None while it takes us."""
        self._defect: BaseException | None = None

    def wake(self) -> None:
        """Look again what is due."""
        self._awake.set()

    async def run(self) -> None:
        """Serve until cancelled; what is under way then goes on (``drain``). Raises what a request raised: a defect."""
        while True:
            if self._defect is not None:
                raise self._defect
            self._awake.clear()
            step = self.target.next(moment_of(self._clock))
            while self.target.dead:
                undelivered = self.target.dead[0]
                await self._bury(self.name, undelivered)
                self.target.dead.popleft()
                self.target.buried(undelivered)
            if isinstance(step, Wait):
                await self._wait(step)
            else:
                self._begin(step)

    async def drain(self, within_s: float) -> None:
        """Let what is under way end, then cancel it: without an answer it counts as not sent."""
        if self._posting and within_s:
            await asyncio.wait(self._posting, timeout=within_s)
        for task in tuple(self._posting):
            task.cancel()
        await asyncio.gather(*self._posting, return_exceptions=True)

    def tell_figures(self) -> None:
        """Bring the counters up to what the state says."""
        target = self.target
        for kind in ("taken", "delivered", "held", "retried", "left_out", "not_kept"):
            COUNTERS.add("deliver_transitions", target.counts[kind] - self._counted[kind], target=self.name, what=kind)
        self._counted = Counter(target.counts)
        oldest_ms = target.oldest_ms()
        age_ms = 0 if oldest_ms is None else max(0, self._clock.now_ms() - oldest_ms)
        COUNTERS.set("deliver_waiting", target.waiting, target=self.name)
        COUNTERS.set("deliver_oldest_ms", age_ms, target=self.name)
        COUNTERS.set("deliver_open", target.open, target=self.name)

    async def _wait(self, step: Wait) -> None:
        pause_s = None if step.until_ms is None else max(0.0, (step.until_ms - moment_of(self._clock).ms) / 1_000)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(
                pause_s
            ):  # wait_for of Python 3.11 loses a cancellation that comes with the event
                await self._awake.wait()

    def _begin(self, step: Send | Resend) -> None:
        task = asyncio.create_task(self._post(step) if isinstance(step, Send) else self._post_again(step))
        self._posting.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._posting.discard(task)
        if not task.cancelled() and self._defect is None:
            self._defect = task.exception()
        self.wake()

    async def _post(self, send: Send) -> None:
        answer = await self._ask(partial(post_of, self.target.config, send))
        self.target.answered(send, answer, moment_of(self._clock), self._draw())

    async def _post_again(self, resend: Resend) -> None:
        retelling = Retelling(resend.transitions)
        while (batch := retelling.next()) is not None:
            alerts = [one.alert for one in batch]
            retelling.answered(await self._ask(partial(post_again, self.target.config, alerts)))
        self.target.resent(retelling.outcome, moment_of(self._clock), self._draw(), retelling.culprits)

    async def _ask(self, make: Callable[[int], Post]) -> Answer:
        try:
            post = make(self._clock.now_ms())
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            return Answer(UNSHAPED, f"cannot be told in this shape: {error!r}")
        answer = await self._client.post(post)
        COUNTERS.add("deliver_requests", target=self.name, status=answer.status or "none")
        self._note(answer)
        return answer

    def _note(self, answer: Answer) -> None:
        """One line when a target goes away and one when it is back, none per request."""
        if answer.turned_away:
            self.turned_away = f"target {self.name} answers {answer.status}: see to its address and token"
        elif answer.status:
            self.turned_away = None
        bad = answer.verdict is not Verdict.DELIVERED
        if bad and not self._down:
            facts = {"target": self.name, "status": answer.status, "said": answer.detail}
            _log.warning("a target does not take alerts; they wait", extra=facts)
        elif self._down and not bad:
            _log.info("a target takes alerts again", extra={"target": self.name})
        self._down = bad
