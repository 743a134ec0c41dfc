"""What a commit of the alert job tells about itself: a few numbers, read off state and changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from schemas.alerts import SEVERITIES, TRANSITIONS
from stream_jobs.alerts.changes import Changes, State


@dataclass(frozen=True, slots=True)
class Figures:
    """``open`` alerts by severity; ``transitions`` by kind, windows and records since the last commit. ``refused`` are
    causes that found no room, ``progress_ms`` the end of the window judged last."""

    open: Mapping[str, int]
    transitions: Mapping[str, int]
    judged: int
    incomplete: int
    late: int
    skipped: int
    refused: int
    progress_ms: int
    failed: tuple[str, ...] = ()
    """Windows that a defect kept from being judged, each with its error."""
    unnamed: int = 0
    """Amounts of tenants and models that found no room by name; budgets for all have them."""


def figures_of(state: State, changes: Changes) -> Figures:
    """The figures of a commit of these changes."""
    severities = Counter(incident.severity for incident in state.life.book.open())
    transitions = Counter(alert.transition for alert in changes.alerts)
    return Figures(
        open={severity: severities[severity] for severity in SEVERITIES},
        transitions={transition: transitions[transition] for transition in TRANSITIONS},
        judged=changes.judged,
        incomplete=changes.incomplete,
        late=changes.late,
        skipped=changes.skipped,
        refused=state.life.book.refused,
        progress_ms=state.life.now_ms,
        failed=tuple(changes.failed),
        unnamed=state.life.spending.spend.unnamed,
    )
