"""What a drill found: what was seen and when, what mended it, whether the books are exact, and whether all is good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fleetpulse.reconcile.compare import Report
from lab.drills.watch import Sign
from runtime.runbook import Cause


@dataclass(frozen=True, slots=True)
class Mended:
    """What was done about a fault. ``pasted``: lines of the runbook. ``within_s``: how soon it was mended after the
    first of them; None: it is not. ``failed``: lines that failed, with their exit codes. ``left``: what it had left
    behind, mended as its own section says."""

    pasted: tuple[str, ...] = ()
    within_s: float | None = None
    failed: tuple[str, ...] = ()
    left: Cause | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one drill. ``signs``: the first of each channel; ``silent``: channels that should have shown it and did not
    in time; ``others``: by channel and cause the first text that named another. ``firing_s``: when the alert was more
    than pending, ``overdue``: it was pending for too long. ``unproven``: channels that nothing watched here,
    ``blind``: that should have been watched and never were, or whose last look failed.
    ``consequences``: other causes that are true while the fault lasts. ``alerts``: what was opened about the fleet
    meanwhile, which names no cause of the pipeline. ``ended``: how often services ended that the fault is not meant to
    end."""

    name: str
    cause: Cause | None
    books: Report
    mended: Mended = Mended()
    signs: Mapping[str, Sign] = field(default_factory=dict)
    silent: tuple[str, ...] = ()
    firing_s: float | None = None
    others: Mapping[str, Mapping[Cause, Sign]] = field(default_factory=dict)
    alerts: tuple[str, ...] = ()
    overdue: bool = False
    unproven: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()
    consequences: frozenset[Cause] = frozenset()
    ended: Mapping[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Every channel showed the cause in time and none another that is not its consequence, or none any where there
        is none; the advice mended it without a line that failed, no service ended beside it, and the books are
        exact."""
        mended = self.mended.within_s is not None
        return mended and not self._wrong and self.books.exact and not self.books.empty

    @property
    def pending(self) -> bool:
        """Whether the alert was there and notified nobody yet."""
        return "alert" in self.signs and self.firing_s is None

    @property
    def unexplained(self) -> Mapping[Cause, str]:
        """Other causes that are no consequence: where and when, and by which text, each was first named."""
        found = dict[Cause, str]()
        for channel, causes in self.others.items():
            for cause, sign in causes.items():
                if cause not in self.consequences | {self.mended.left}:
                    found.setdefault(cause, f"{channel} {sign.after_s:.0f} s: {sign.text}")
        return dict(sorted(found.items()))

    @property
    def _wrong(self) -> list[str]:
        """What was not as it should be, in a few words each."""
        wrong = [f"silent: {', '.join(self.silent)}"] if self.silent else []
        wrong += [f"not watched: {', '.join(self.blind)}"] if self.blind else []
        wrong += ["alert does not fire"] if self.overdue else []
        wrong += [f"also named: {', '.join(self.unexplained)}"] if self.unexplained else []
        wrong += [f"failed: {', '.join(self.mended.failed)}"] if self.mended.failed else []
        wrong += [f"ended beside the fault: {name} ({count})" for name, count in self.ended.items()]
        return wrong

    @property
    def verdict(self) -> str:
        """What is wrong, or ``good``, and what was not looked at."""
        found = "; ".join(self._wrong) or ("good" if self.good else "WRONG")
        return found + "".join(f"; not proven: {name}" for name in self.unproven)

    @property
    def compared(self) -> str:
        """The books in a word."""
        return "NOT compared" if not self.books.checks else "exact" if self.books.exact else "NOT exact"

    def text(self) -> str:
        """One line for people, and one for each cause that nothing explains."""
        seen = ", ".join(f"{name} {self.when(name)}" for name in self.signs) or "nowhere"
        wrong = "".join(f"; {each}" for each in self._wrong + [f"not proven: {name}" for name in self.unproven])
        within_s, left = self.mended.within_s, self.mended.left
        mended = "not mended" if within_s is None else f"mended in {within_s:.0f} s"
        mended += f", with what it left: {left}" if left else ""
        line = f"{self.name}: {self.cause or 'no fault'}, seen: {seen}{wrong}; {mended}; books {self.compared}"
        return "\n".join([line, *(f"  {cause} by {text}" for cause, text in self.unexplained.items())])

    def when(self, channel: str) -> str:
        """How soon a channel showed it; empty where it did not."""
        if channel not in self.signs:
            return ""
        return f"{self.signs[channel].after_s:.0f} s" + (" (pending)" if channel == "alert" and self.pending else "")

    def as_dict(self) -> dict[str, Any]:
        return {
            "fault": self.name,
            "cause": self.cause,
            "signs": {name: asdict(sign) for name, sign in self.signs.items()},
            "silent": list(self.silent),
            "firing_s": self.firing_s,
            "pending": self.pending,
            "overdue": self.overdue,
            "unproven": list(self.unproven),
            "blind": list(self.blind),
            "unexplained": dict(self.unexplained),
            "failed": list(self.mended.failed),
            "ended": dict(self.ended),
            "others": {
                name: {each: asdict(sign) for each, sign in found.items()} for name, found in self.others.items()
            },
            "alerts": list(self.alerts),
            "pasted": list(self.mended.pasted),
            "mended_s": self.mended.within_s,
            "left": self.mended.left,
            "books_exact": self.books.exact,
            "comparisons": self.books.checks,
            "differences": [str(one) for one in self.books.differences],
            "good": self.good,
        }
