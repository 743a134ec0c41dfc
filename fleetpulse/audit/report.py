"""What an audit found: every check with its numbers, and what came too late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fleetpulse.audit.checks import Check
from fleetpulse.report.amounts import instant


@dataclass(frozen=True, slots=True)
class Late:
    """Stored rows that no bill holds: of a (group, minute) how many of GPU readings, usage and shares, and how much of
    the first two. ``no_bill`` 1: no bill of that group and minute stands at all."""

    minute_ms: int
    group: str
    gpu_rows: int
    gpu_ms: int
    usage_rows: int
    requests: int
    share_rows: int
    no_bill: int = 0


@dataclass(frozen=True, slots=True)
class Audit:
    """The result for [from_ms, to_ms). ``unpriced``: why bills were not priced again; empty: they were; the audit is
    then exact only if people wanted it without prices (``with_prices`` False). ``holes`` are
    what resets of jobs left out, whenever it was: bills of those minutes lack it. Before ``kept_ms`` readings have
    expired: bills there were compared with nothing but themselves. 0: none have. ``no_bill_minutes``: so many of the
    ``late_minutes`` have no bill at all. ``asked_to_ms`` beyond ``to_ms``: so far people asked, and bills may still
    come."""

    from_ms: int
    to_ms: int
    checks: Sequence[Check]
    late_gpu_rows: int
    late_usage_rows: int
    late_share_rows: int
    late_minutes: int
    late: Sequence[Late]
    unpriced: str = ""
    holes: Sequence[str] = ()
    kept_ms: int = 0
    with_prices: bool = True
    no_bill_minutes: int = 0
    asked_to_ms: int = 0

    @property
    def cut(self) -> bool:
        """Whether the end of the range that people asked for was left out, being too young."""
        return self.asked_to_ms > self.to_ms

    @property
    def bills(self) -> int:
        """How many bills were looked at."""
        return next((check.compared for check in self.checks if check.name == "parts"), 0)

    @property
    def late_rows(self) -> int:
        """Stored rows that no bill holds."""
        return self.late_gpu_rows + self.late_usage_rows + self.late_share_rows

    @property
    def exact(self) -> bool:
        """The bills agree, and none is missing."""
        return self.agree and not self.no_bill_minutes

    @property
    def agree(self) -> bool:
        """Nothing differs, there was something to compare, and bills were priced again, unless that was waived."""
        return self.bills > 0 and not self.differing and (self.priced or not self.with_prices)

    @property
    def differing(self) -> bool:
        """Whether some check found a difference."""
        return any(check.differing for check in self.checks)

    @property
    def priced(self) -> bool:
        """Whether bills were priced again."""
        return not self.unpriced

    def as_dict(self) -> dict[str, Any]:
        return {"exact": self.exact, "priced": self.priced, "bills": self.bills, **asdict(self)}

    def lines(self) -> Iterator[str]:
        """What to say beside the table of checks."""
        for check in self.checks:
            for example in check.examples:
                yield f"{check.name}: {example}"
        if self.cut:
            yield f"not audited: minutes from {instant(self.to_ms)} (UTC) on, whose bills may still come"
        if self.kept_ms > self.from_ms:
            yield (
                f"readings expired, not compared: bills before {instant(self.kept_ms)} (UTC) are checked in their"
                " parts and rollups alone"
            )
        yield from (f"declared missing by {hole}" for hole in self.holes)
        if self.unpriced:
            yield f"not priced again: {self.unpriced}"
        if self.late_minutes:
            rows = (
                f"{self.late_gpu_rows:,} rows of GPU readings, {self.late_usage_rows:,} of usage"
                f" and {self.late_share_rows:,} of shares"
            )
            yield f"{rows} came when their minute was no longer kept ({self.late_minutes:,} group-minutes):"
            yield "  `fleetpulse rerate` takes them in"
        if self.no_bill_minutes:
            yield (
                f"no bill: {self.no_bill_minutes:,} of these group-minutes have none at all. All of their rows came too"
                " late, or the cost job has lost or not yet reached them"
            )
