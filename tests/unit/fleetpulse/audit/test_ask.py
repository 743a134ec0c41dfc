"""Which minutes an audit looks at."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetpulse.audit import ask
from fleetpulse.audit.ask import live
from fleetpulse.audit.report import Audit
from runtime.config import Config
from schemas.errors import ConfigError
from schemas.limits import HOUR_MS, MINUTE_MS
from stream_jobs.prices.model import Prices

SETTLED_MS = 1_769_839_380_000
"""2026-01-31 06:03 UTC: it is 06:05:30."""


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database where nothing is asked."""

    def audit(_database: object, from_ms: int, to_ms: int, *_more: object) -> Audit:
        return Audit(from_ms, to_ms, [], 0, 0, 0, 0, ())

    known: dict[str, Any] = {
        "audit": audit,
        "load": Config,
        "load_prices": lambda _path: Prices(),
        "read_holes": lambda _database: [],
        "Database": lambda _config, **_more: SimpleNamespace(close=lambda: None),
        "SystemClock": lambda: SimpleNamespace(now_ms=lambda: SETTLED_MS + 2 * MINUTE_MS + 30_000),
    }
    for name, value in known.items():
        monkeypatch.setattr(ask, name, value)


@pytest.mark.parametrize(
    ("to", "to_ms", "cut"),
    [
        (None, SETTLED_MS, False),
        ("2026-01-31T06:03:00Z", SETTLED_MS, False),
        ("2026-01-31T06:02:00Z", SETTLED_MS - MINUTE_MS, False),
        ("2026-01-31T06:04:00Z", SETTLED_MS, True),
        ("2026-01-31T06:05:00Z", SETTLED_MS, True),
        ("2026-02-01", SETTLED_MS, True),
    ],
)
def test_minutes_whose_bills_may_still_come_are_left_out(tables: None, to: str | None, to_ms: int, cut: bool) -> None:
    """Whoever asks up to now, or the end of today, is told so; their missing bills are no finding."""
    found = live(HOUR_MS, "2026-01-31", to, Path("prices.yaml"))

    assert (found.from_ms, found.to_ms, found.cut) == (SETTLED_MS - 363 * MINUTE_MS, to_ms, cut)
    said = "not audited: minutes from 2026-01-31 06:03 (UTC) on, whose bills may still come"
    assert list(found.lines()) == [said] * cut


def test_a_range_of_such_minutes_alone_is_refused(tables: None) -> None:
    """There is nothing to audit yet."""
    with pytest.raises(ConfigError, match=r"--from = .*must lie before 2026-01-31 06:03: .* may still come"):
        live(HOUR_MS, "2026-01-31T06:03:00Z", "2026-01-31T06:05:00Z", Path("prices.yaml"))
