"""Load balancing: the healthy upstream with the fewest open requests for its weight takes the next request.

Open requests rather than round robin, because LLM requests differ a hundredfold in length. What is known of health
comes from requests themselves:

- *down*: ``failures_max`` connections in a row failed. Left alone for ``down_s``; then one request at a time tries it,
  until one connects.
- *out*: it connects and does not answer. Either requests wait for their first byte and no byte of any answer has come
  for ``silent_s`` (a long prompt is no silence while other streams go on), or ``breaks_max`` requests in a row ended
  without an answer. Requests that it has stay with it; new ones go elsewhere for ``down_s``, twice as long each time up
  to ``DOWN_MAX_S``; then it is probed, and after a good probe one request at a time tries it. The first byte of any
  answer brings it back, that of a request which had waited all the time as well.

Nothing is left alone into nothing: where no other upstream is healthy, those that connect share the requests as if
they were, and where none connects the one whose pause ends first is tried. Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

DOWN_MAX_S = 60.0
"""The longest pause of an upstream that is out."""


@dataclass(slots=True)
class Upstream:
    """One upstream and how it fares. ``turn`` is the number of the choice that took it last."""

    index: int
    name: str
    weight: int
    open: int = 0
    failures: int = 0
    """Connections in a row that failed."""
    down_until_s: float = 0.0
    on_trial: bool = False
    turn: int = 0
    waiting: int = 0
    """Requests that were sent whole, and no byte came back."""
    heard_s: float = 0.0
    """When the last byte of any answer came, or the first of those that wait was sent."""
    breaks: int = 0
    """Requests in a row that it ended without an answer."""
    outs: int = 0
    """Times in a row that it was taken out; 0: it is not."""
    probing: bool = False
    probed: bool = False


class Choice:
    """Chooses among upstreams and remembers their health. ``breaks_max`` or ``silent_s`` 0: none is taken out so."""

    def __init__(
        self,
        weights: Sequence[tuple[str, int]],
        *,
        failures_max: int,
        down_s: float,
        breaks_max: int = 0,
        silent_s: float = 0.0,
    ) -> None:
        self.upstreams = [Upstream(index, name, weight) for index, (name, weight) in enumerate(weights)]
        self._failures_max = failures_max
        self._down_s = down_s
        self._breaks_max = breaks_max
        self._silent_s = silent_s
        self._turns = 0

    def take(self, now_s: float, without: Collection[int] = ()) -> Upstream | None:
        """The upstream for a request, its ``open`` counted up; None when every one is in ``without``."""
        left = [upstream for upstream in self.upstreams if upstream.index not in without]
        if not left:
            return None
        able = [upstream for upstream in left if self._may_try(upstream, now_s)]
        able = able or [upstream for upstream in left if not self.is_down(upstream)]
        if able:
            chosen = min(able, key=lambda upstream: ((upstream.open + 1) / upstream.weight, upstream.turn))
        else:
            chosen = min(left, key=lambda upstream: (upstream.down_until_s, upstream.turn))
        self._turns += 1
        chosen.turn = self._turns
        chosen.open += 1
        chosen.on_trial = self.is_down(chosen) or self.is_out(chosen)
        return chosen

    def is_down(self, upstream: Upstream) -> bool:
        """Whether it is marked down for its connections, or on trial."""
        return upstream.failures >= self._failures_max

    def is_out(self, upstream: Upstream) -> bool:
        """Whether it was taken out for its answers, or is on trial."""
        return upstream.outs > 0

    def none_to_try(self, now_s: float) -> bool:
        """Whether every one is marked down now. False once a pause has ended: only a request can find out more; and
        while one connects, though it is out: what it serves slowly would else be served nowhere."""
        return all(self.is_down(upstream) and now_s < upstream.down_until_s for upstream in self.upstreams)

    def _may_try(self, upstream: Upstream, now_s: float) -> bool:
        if not self.is_down(upstream) and not self.is_out(upstream):
            return True
        return now_s >= upstream.down_until_s and not upstream.on_trial and (upstream.probed or upstream.outs == 0)

    def release(self, upstream: Upstream) -> None:
        """The request is over, or went elsewhere."""
        assert upstream.open > 0, "released more often than taken"
        upstream.open -= 1
        if upstream.open == 0:
            upstream.on_trial = False  # it ended before its body was whole, and showed nothing

    # Connections

    def connected(self, upstream: Upstream) -> bool:
        """It was reached. True when it had been down."""
        was_down = self.is_down(upstream)
        upstream.failures = 0
        self.reused(upstream)
        return was_down

    def reused(self, upstream: Upstream) -> None:
        """An idle connection was taken, which proves nothing of new ones: the next request may try those. An upstream
        that is out is tried by an answer, whatever connection it comes on."""
        if not self.is_out(upstream):
            upstream.on_trial = False

    def gave_up(self, upstream: Upstream) -> None:
        """This request did not show how the upstream fares: the next one may try."""
        upstream.on_trial = False

    def failed(self, upstream: Upstream, now_s: float) -> bool:
        """It could not be reached. True when it goes down by this."""
        upstream.failures += 1
        upstream.on_trial = False
        if not self.is_down(upstream):
            return False
        upstream.down_until_s = now_s + self._down_s
        return upstream.failures == self._failures_max

    # Answers

    def sent(self, upstream: Upstream, now_s: float) -> None:
        """A whole request was sent: its first byte is awaited, until ``settled``."""
        if upstream.waiting == 0:
            upstream.heard_s = now_s
        upstream.waiting += 1

    def settled(self, upstream: Upstream) -> None:
        """A request that was sent has its first byte, or has ended."""
        assert upstream.waiting > 0, "settled more often than sent"
        upstream.waiting -= 1
        if upstream.waiting == 0:
            upstream.on_trial = False

    def answered(self, upstream: Upstream) -> bool:
        """The first byte of an answer came. True when it had been out, and is back."""
        was_out = self.is_out(upstream)
        upstream.breaks = upstream.outs = 0
        upstream.probed = False
        if was_out:
            upstream.on_trial = False
        return was_out

    def broke(self, upstream: Upstream, now_s: float) -> bool:
        """It ended a request without an answer. True when it goes out by this; one on trial does at once."""
        upstream.breaks += 1
        tried = self.is_out(upstream) and upstream.on_trial
        if not self._breaks_max or not (tried or (upstream.breaks >= self._breaks_max and upstream.outs == 0)):
            return False
        self._take_out(upstream, now_s)
        return True

    def take_out_silent(self, now_s: float) -> list[Upstream]:
        """Take out those that let requests wait in silence; which went out by this."""
        silent = [
            upstream
            for upstream in self.upstreams
            if self._silent_s
            and upstream.waiting
            and now_s - upstream.heard_s > self._silent_s
            and (upstream.outs == 0 or upstream.on_trial)
        ]
        for upstream in silent:
            self._take_out(upstream, now_s)
        return silent

    def _take_out(self, upstream: Upstream, now_s: float) -> None:
        upstream.outs += 1
        upstream.breaks = 0
        upstream.on_trial = upstream.probed = False
        upstream.heard_s = now_s
        upstream.down_until_s = now_s + min(self._down_s * 2.0 ** (min(upstream.outs, 32) - 1), DOWN_MAX_S)

    def begin_probes(self, now_s: float) -> list[Upstream]:
        """Those to be probed now; each once, until ``probe_ended`` or ``not_probed``."""
        due = [
            upstream
            for upstream in self.upstreams
            if upstream.outs and not upstream.probed and not upstream.probing and now_s >= upstream.down_until_s
        ]
        for upstream in due:
            upstream.probing = True
        return due

    def not_probed(self, upstream: Upstream) -> None:
        """It could not be asked: it is due again."""
        upstream.probing = False

    def probe_ended(self, upstream: Upstream, now_s: float, *, good: bool) -> None:
        """After a good probe a request may try it; after a bad one its pause begins again, longer."""
        upstream.probing = False
        if not self.is_out(upstream):
            return  # an answer was faster
        if good:
            upstream.probed = True
        else:
            self._take_out(upstream, now_s)
