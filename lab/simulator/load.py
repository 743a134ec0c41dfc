"""Who arrives when: Poisson with a daily season, or the arrivals of a trace, as columns.

A load is data; ``source`` makes the thing that hands out arrivals of ``[from_us, to_us)`` one interval after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log, pi, sin, sqrt
from typing import Protocol

import numpy as np
import numpy.typing as npt

DAY_US = 86_400_000_000
PEAK_HOUR = 14.0
"""UTC."""
_THURSDAY, _SATURDAY = 3, 5
"""The epoch began on a Thursday; weeks begin on Monday."""
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Share:
    """A model's share of a load; shares are relative to one another."""

    model: str
    weight: float


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests in order of arrival; ``model`` indexes ``Load.models()``. Token counts before any limit. ``tenant``
    says who asks, -1 for whoever it falls to; None: that is all of them."""

    at_us: Ints
    model: npt.NDArray[np.int16]
    input_tokens: Ints
    output_tokens: Ints
    tenant: Ints | None = None


@dataclass(frozen=True, slots=True)
class Lengths:
    """Log-normal token counts with this median and mean, at least ``least`` and at most ``most``."""

    median: float
    mean: float
    least: int
    most: int

    def draw(self, random: np.random.Generator, count: int) -> Ints:
        """``count`` lengths."""
        sigma = sqrt(2.0 * log(self.mean / self.median))
        drawn = random.lognormal(log(self.median), sigma, count)
        return np.clip(drawn, self.least, self.most).astype(np.int64)


CHAT_INPUT = Lengths(1_020, 1_154.7, 2, 14_050)
CHAT_OUTPUT = Lengths(129, 211.1, 7, 1_000)
"""Median, mean and extremes of the Azure conversation trace of 2023."""


class Source(Protocol):
    """Hands out arrivals of adjoining intervals in rising order."""

    def between(self, from_us: int, to_us: int) -> Arrivals: ...


class Load(Protocol):
    """A load as data."""

    def models(self) -> tuple[str, ...]: ...

    def source(self, random: np.random.Generator, start_us: int) -> Source: ...


@dataclass(frozen=True, slots=True)
class PoissonLoad:
    """``requests_per_s`` on average over a day, ``season`` (0 to 1) its swing around it, highest at ``PEAK_HOUR``;
    ``weekend`` is what is left of it on Saturdays and Sundays.

    The rate is held constant within one interval (a second).
    """

    requests_per_s: float
    shares: tuple[Share, ...]
    season: float = 0.0
    output_tokens: Lengths = CHAT_OUTPUT
    weekend: float = 1.0

    def models(self) -> tuple[str, ...]:
        return tuple(share.model for share in self.shares)

    def rate(self, at_us: int) -> float:
        """Requests per second at a moment."""
        phase = (at_us % DAY_US) / DAY_US - (PEAK_HOUR - 6.0) / 24.0
        weekday = (at_us // DAY_US + _THURSDAY) % 7
        share = self.weekend if weekday >= _SATURDAY else 1.0
        return self.requests_per_s * share * (1.0 + self.season * sin(2.0 * pi * phase))

    def source(self, random: np.random.Generator, start_us: int) -> Source:
        return _PoissonSource(self, random)


class _PoissonSource:
    def __init__(self, load: PoissonLoad, random: np.random.Generator) -> None:
        self._load = load
        self._random = random
        self._edges = _edges(load.shares)

    def between(self, from_us: int, to_us: int) -> Arrivals:
        load, random = self._load, self._random
        count = int(random.poisson(load.rate(from_us) * (to_us - from_us) / 1e6))
        at_us = np.sort(random.integers(from_us, to_us, count))
        model = np.searchsorted(self._edges, random.random(count), "right").astype(np.int16)
        return Arrivals(at_us, model, CHAT_INPUT.draw(random, count), load.output_tokens.draw(random, count))


@dataclass(frozen=True, slots=True)
class Trace:
    """Arrivals of a recorded hour: ``at_us`` from any origin, rising."""

    at_us: Ints
    input_tokens: Ints
    output_tokens: Ints

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int]]) -> Trace:
        """From ``(at_us, input tokens, output tokens)`` in order of time."""
        table = np.array(list(rows), dtype=np.int64).reshape(-1, 3)
        return cls(*(np.ascontiguousarray(table[:, column]) for column in range(3)))


@dataclass(frozen=True, slots=True)
class TraceLoad:
    """Traces side by side, each shared out among models, gaps divided by ``speed``, begun again at the end.

    ``traces`` maps a name (such as code, conv) to its trace and ``shares`` the same name to models.
    """

    traces: Mapping[str, Trace]
    shares: Mapping[str, tuple[Share, ...]]
    speed: float = 1.0
    repeat: bool = True
    _models: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.speed <= 0 or not self.traces or set(self.traces) != set(self.shares):
            raise ValueError("speed must be above 0, and each trace needs its shares")
        names = [share.model for name in self.traces for share in self.shares[name]]
        object.__setattr__(self, "_models", tuple(dict.fromkeys(names)))

    def models(self) -> tuple[str, ...]:
        return self._models

    def source(self, random: np.random.Generator, start_us: int) -> Source:
        return _TraceSource(self, random, start_us)


class _TraceSource:
    """Position = (round, row); a round lasts the whole span of all traces plus one mean gap."""

    def __init__(self, load: TraceLoad, random: np.random.Generator, start_us: int) -> None:
        self._random = random
        self._repeat = load.repeat
        origin = min(int(trace.at_us[0]) for trace in load.traces.values())
        at, which, inputs, outputs = [], [], [], []
        for number, trace in enumerate(load.traces.values()):
            at.append(((trace.at_us - origin) / load.speed).astype(np.int64))
            which.append(np.full(len(trace.at_us), number, np.int16))
            inputs.append(trace.input_tokens)
            outputs.append(trace.output_tokens)
        order = np.argsort(np.concatenate(at), kind="stable")
        self._at, self._which = np.concatenate(at)[order], np.concatenate(which)[order]
        self._inputs, self._outputs = np.concatenate(inputs)[order], np.concatenate(outputs)[order]
        self._round_us = int(self._at[-1]) + max(1, int(self._at[-1]) // len(self._at))
        self._start_us = start_us
        positions = {name: index for index, name in enumerate(load.models())}
        self._edges = [_edges(shares) for shares in (load.shares[name] for name in load.traces)]
        self._models = [
            np.array([positions[share.model] for share in load.shares[name]], np.int16) for name in load.traces
        ]

    def between(self, from_us: int, to_us: int) -> Arrivals:
        parts: list[tuple[int, int, int]] = []
        round_ = (from_us - self._start_us) // self._round_us
        while (origin := self._start_us + round_ * self._round_us) < to_us and (self._repeat or round_ == 0):
            first = int(np.searchsorted(self._at, max(0, from_us - origin), "left"))
            last = int(np.searchsorted(self._at, to_us - origin, "left"))
            parts.append((origin, first, last))
            round_ += 1
        rows = np.concatenate([np.arange(first, last) for _, first, last in parts] or [np.empty(0, np.int64)])
        shift = np.concatenate([np.full(b - a, origin) for origin, a, b in parts] or [np.empty(0, np.int64)])
        return Arrivals(self._at[rows] + shift, self._share_out(rows), self._inputs[rows], self._outputs[rows])

    def _share_out(self, rows: Ints) -> npt.NDArray[np.int16]:
        model = np.zeros(len(rows), np.int16)
        draws = self._random.random(len(rows))
        for number, (edges, models) in enumerate(zip(self._edges, self._models, strict=True)):
            mine = self._which[rows] == number
            model[mine] = models[np.searchsorted(edges, draws[mine], "right")]
        return model


def _edges(shares: tuple[Share, ...]) -> npt.NDArray[np.float64]:
    """Upper edges in [0, 1) of all shares but the last."""
    weights = np.array([share.weight for share in shares], np.float64)
    return np.asarray((np.cumsum(weights) / weights.sum())[:-1])
