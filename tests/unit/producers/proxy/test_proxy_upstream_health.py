"""UpstreamHealth: what changes is counted and logged once, and probes end as they should."""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import Any

import pytest

from producers.proxy.pool import Pool
from producers.proxy.stats import ProxyStats
from producers.proxy.upstream_health import UpstreamHealth
from producers.proxy.upstreams import Choice
from runtime.counters import Counters
from runtime.proxy_config import UpstreamConfig
from tests.unit.producers.proxy import test_proxy_sides as sides


class Setting:
    """Two upstreams; the first is probed with these results."""

    def __init__(self, *results: str | OSError | None) -> None:
        self.now_s = 0.0
        self.counters = Counters()
        self.choice = Choice([("a", 1), ("b", 1)], failures_max=1, down_s=5.0, breaks_max=1, silent_s=60.0)
        self._results = list(results)
        stats = ProxyStats(self.counters, ("a", "b"))
        self.health = UpstreamHealth(self.choice, stats, [self._probe, self._probe], lambda: self.now_s, 5.0)

    async def _probe(self) -> str | None:
        result = self._results.pop(0)
        if isinstance(result, OSError):
            raise result
        return result

    def gauges(self) -> tuple[float, float]:
        return tuple(self.counters.value(f"proxy_upstream_{name}", upstream="a") for name in ("down", "out"))  # type: ignore[return-value]


def test_connections_and_answers_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    """Down by connections, out by answers; each change is one line."""
    caplog.set_level(logging.INFO)
    setting = Setting()
    first, health = setting.choice.upstreams[0], setting.health

    seen = []
    for step in (
        lambda: health.failed(first, OSError("refused")),
        lambda: health.connected(first),
        lambda: health.connected(first),
        lambda: health.broke(first, "upstream_failed"),
        lambda: health.answered(first),
        lambda: health.answered(first),
    ):
        step()
        seen.append(setting.gauges())

    assert seen == [(1, 0), (0, 0), (0, 0), (0, 1), (0, 0), (0, 0)]
    assert caplog.messages == [
        "upstream down",
        "upstream up",
        "upstream does not answer, taken out",
        "upstream answers again",
    ]


async def test_a_sweep_takes_out_and_probes() -> None:
    """A bad probe, a longer pause, a good one."""
    setting = Setting("TimeoutError: ", None)
    first = setting.choice.upstreams[0]
    setting.choice.sent(first, 0.0)

    found = []
    for now_s in (60.5, 65.4, 65.5, 75.4, 75.5):
        setting.now_s = now_s
        setting.health.sweep(now_s)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        found.append((first.outs, first.probed))

    assert found == [(1, False), (1, False), (2, False), (2, False), (2, True)]
    setting.health.close()


NONE_LEFT = OSError(errno.EMFILE, "no descriptor left")


async def test_a_probe_that_could_not_ask_is_made_again() -> None:
    """At the next sweep: the upstream's pause grows no longer by it."""
    setting = Setting(NONE_LEFT, None)
    first = setting.choice.upstreams[0]
    setting.choice.sent(first, 0.0)

    found = []
    for now_s in (60.5, 65.5, 66.5):
        setting.now_s = now_s
        setting.health.sweep(now_s)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        found.append((first.outs, first.probed))

    assert found == [(1, False), (1, False), (1, True)]
    setting.health.close()


async def test_a_probe_without_a_descriptor_has_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlike one that the upstream refuses."""
    errors = [ConnectionRefusedError(errno.ECONNREFUSED, "refused"), NONE_LEFT]

    async def failing(*_any: Any, **_more: Any) -> None:
        raise errors.pop(0)

    monkeypatch.setattr(asyncio, "open_connection", failing)
    pool = Pool(sides.Setting().server, UpstreamConfig(url="http://127.0.0.1:1"))

    assert "refused" in (await pool.probe() or "")
    with pytest.raises(OSError, match="no descriptor left"):
        await pool.probe()
