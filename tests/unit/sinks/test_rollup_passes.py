"""Passes of the rollups while ClickHouse is away, and while the sink stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.config import ClickHouseConfig
from runtime.health import Readiness
from schemas.errors import ContractError, ReplicaBehindError, UnavailableError
from schemas.limits import DEFAULT_LIMITS
from sinks import rollup_passes
from sinks.drain import Drain
from sinks.rollup import NONE, RollupSettings

BEHIND = ReplicaBehindError("no such table")


class Database:
    """Has nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("stops", [False, True])
async def test_a_pass_that_fails_is_retried_but_not_at_a_stop(
    stops: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The line says which."""
    loop, stop, passes = asyncio.get_running_loop(), asyncio.Event(), list[int]()

    class Rollups:
        def __init__(self, *_: Any) -> None: ...

        def run_pass(self) -> int:
            passes.append(1)
            if stops or len(passes) > 1:
                loop.call_soon_threadsafe(stop.set)
            if len(passes) > 1:
                return 0
            raise UnavailableError("away")

    monkeypatch.setattr(rollup_passes, "SinkDatabase", Database)
    monkeypatch.setattr(rollup_passes, "Rollups", Rollups)
    settings, readiness = RollupSettings(pass_ms=1), Readiness()

    await rollup_passes.run_passes(
        ClickHouseConfig(), settings, DEFAULT_LIMITS, lambda: NONE, Drain(stop, 1.0), readiness
    )

    assert len(passes) == (1 if stops else 2)
    assert [record.getMessage() for record in caplog.records] == [
        "stopped before ClickHouse answered; rollups are computed after the restart"
        if stops
        else "ClickHouse unavailable, rollups retrying"
    ]
    assert readiness.why() is None


async def test_a_server_that_stays_behind_others_ends_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures in a row count: what could be computed in between shows that it had caught up."""
    failures: list[Exception | None] = [BEHIND, None, BEHIND, BEHIND]

    class Rollups:
        def __init__(self, *_: Any) -> None: ...

        def run_pass(self) -> int:
            if (failure := failures.pop(0)) is not None:
                raise failure
            return 1

    monkeypatch.setattr(rollup_passes, "SinkDatabase", Database)
    monkeypatch.setattr(rollup_passes, "Rollups", Rollups)
    monkeypatch.setattr("runtime.retried.BEHIND_S", 0.0)
    settings, drain = RollupSettings(pass_ms=1), Drain(asyncio.Event(), 1.0)

    with pytest.raises(ContractError, match="no such table"):
        await rollup_passes.run_passes(ClickHouseConfig(), settings, DEFAULT_LIMITS, lambda: NONE, drain, Readiness())

    assert failures == []
