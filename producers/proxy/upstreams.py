"""Load balancing: the healthy upstream with the fewest open requests for its weight takes the next request.

Open requests rather than round robin, because LLM requests differ a hundredfold in length. Health follows from
connecting: after ``failures_max`` failures in a row an upstream is marked down for ``down_s``; then one request at a
time tries it, until one connects. When all are down, the one whose pause ends first is tried.
Pure: time is an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Upstream:
    """One upstream and how it fares. ``turn`` is the number of the choice that took it last."""

    index: int
    name: str
    weight: int
    open: int = 0
    failures: int = 0
    down_until_s: float = 0.0
    on_trial: bool = False
    turn: int = 0


class Choice:
    """Chooses among upstreams and remembers their health."""

    def __init__(self, weights: Sequence[tuple[str, int]], *, failures_max: int, down_s: float) -> None:
        self.upstreams = [Upstream(index, name, weight) for index, (name, weight) in enumerate(weights)]
        self._failures_max = failures_max
        self._down_s = down_s
        self._turns = 0

    def take(self, now_s: float, without: Collection[int] = ()) -> Upstream | None:
        """The upstream for a request, its ``open`` counted up; None when every one is in ``without``."""
        left = [upstream for upstream in self.upstreams if upstream.index not in without]
        if not left:
            return None
        well = [upstream for upstream in left if self._may_try(upstream, now_s)]
        if well:
            chosen = min(well, key=lambda upstream: ((upstream.open + 1) / upstream.weight, upstream.turn))
        else:
            chosen = min(left, key=lambda upstream: (upstream.down_until_s, upstream.turn))
        self._turns += 1
        chosen.turn = self._turns
        chosen.open += 1
        chosen.on_trial = self.is_down(chosen)
        return chosen

    def is_down(self, upstream: Upstream) -> bool:
        """Whether it is marked down, or on trial."""
        return upstream.failures >= self._failures_max

    def none_to_try(self, now_s: float) -> bool:
        """Whether every one is marked down now. False once a pause has ended: only a request can find out more."""
        return all(self.is_down(upstream) and now_s < upstream.down_until_s for upstream in self.upstreams)

    def _may_try(self, upstream: Upstream, now_s: float) -> bool:
        return not self.is_down(upstream) or (now_s >= upstream.down_until_s and not upstream.on_trial)

    def release(self, upstream: Upstream) -> None:
        """The request is over, or went elsewhere."""
        assert upstream.open > 0, "released more often than taken"
        upstream.open -= 1

    def connected(self, upstream: Upstream) -> bool:
        """It was reached. True when it had been down."""
        was_down = self.is_down(upstream)
        upstream.failures, upstream.on_trial = 0, False
        return was_down

    def gave_up(self, upstream: Upstream) -> None:
        """This request did not show whether it can be reached: the next one may try."""
        upstream.on_trial = False

    def failed(self, upstream: Upstream, now_s: float) -> bool:
        """It could not be reached. True when it goes down by this."""
        upstream.failures += 1
        upstream.on_trial = False
        if not self.is_down(upstream):
            return False
        upstream.down_until_s = now_s + self._down_s
        return upstream.failures == self._failures_max
