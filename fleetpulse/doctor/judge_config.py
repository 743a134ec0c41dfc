"""Findings about the configuration itself: what cannot be used, and keys nobody knows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleetpulse.commands.config_view import Unknown
from fleetpulse.doctor.finding import Finding, good, wrong
from schemas.errors import ConfigError


def judge_config(error: ConfigError | None, unknown: Iterable[Unknown]) -> Iterator[Finding]:
    """``error`` is what loading it said."""
    problems = [
        wrong("config.key", one.name, f"is no setting ({one.place})", one.nearest or "fleetpulse config show")
        for one in unknown
    ]
    yield from problems
    if error is not None and not problems:
        yield wrong(
            "config.value", error.key, f"{error.value!r}: {error.bound}", f"fleetpulse config check   # {error.key}"
        )
    if error is None and not problems:
        yield good("config", "settings", "all are known and within their bounds")
