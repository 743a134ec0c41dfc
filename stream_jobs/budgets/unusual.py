"""A rule for days on which somebody spends far more than usual; what is usual stands in ``unusual_days``. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.errors import ConfigError
from stream_jobs.budgets.standing import PPM

EACH = ("all", "tenant", "model")


@dataclass(frozen=True, slots=True)
class Unusual:
    """A rule. ``share_ppm`` of what is usual, and ``least_nusd`` above it, are both to be reached."""

    each: str
    share_ppm: int
    least_nusd: int

    def __post_init__(self) -> None:
        if self.each not in EACH:
            raise ConfigError("unusual: each", self.each, f"must be one of {', '.join(EACH)}")
        if not PPM < self.share_ppm <= 10 * PPM:
            raise ConfigError("unusual: above", self.share_ppm / PPM, "must be above 1 and at most 10 times the usual")
        if self.least_nusd <= 0:
            raise ConfigError("unusual: at_least", self.least_nusd, "must be above 0")

    @property
    def level(self) -> str:
        """Such as ``unusual 200%``."""
        return f"unusual {self.share_ppm / 10_000:g}%"
