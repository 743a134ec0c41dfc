"""How long alerts wait, live and are remembered: every interval and limit of their life, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.errors import ConfigError
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS


@dataclass(frozen=True, slots=True)
class AlertPolicy:
    """Names end in their unit; all of them event time. None may be 0."""

    hold_ms: int = 2 * MINUTE_MS
    """An alert whose members are all over is resolved when none came back or joined for this long."""
    hold_max_ms: int = 30 * MINUTE_MS
    """Each return after a resolve doubles the hold, up to this."""
    flap_ms: int = 10 * MINUTE_MS
    """What comes back this soon after its alert was resolved takes that alert up again."""
    join_ms: int = 15 * MINUTE_MS
    """What is connected and begins within this time of the newest cause of an alert has the same cause."""
    join_burn_ms: int = 6 * HOUR_MS
    """The same for burn rates, which look back for hours; also how long one may outlive its cause in silence."""
    together_ms: int = 15_000
    """Hosts of one cluster that fall silent within this time have one cause."""
    alike_ms: int = 2 * MINUTE_MS
    """The same trouble of half the machines of a host or model has one cause if it began within this time."""
    members_every_ms: int = MINUTE_MS
    """New members alone are emitted at most this often."""
    evidence_every_ms: int = 10 * MINUTE_MS
    """Evidence of an alert that changed is looked up again at most this often."""
    unseen_ms: int = 10 * MINUTE_MS
    """A finding that no longer comes is over after three of its windows and this."""
    mark_ms: int = HOUR_MS
    """A deployment is evidence for alerts that begin this long after it."""
    resolved_kept_ms: int = 7 * DAY_MS
    """What has been resolved for so long is taken off the topic; longer than any outage of its readers."""
    resolved_max: int = 10_000
    """Resolved alerts on the topic; of more those that ended first are taken off."""
    open_max: int = 5_000
    """Alerts open at once; beyond it what is less severe makes room, or new causes are counted and wait for it."""
    waiting_max: int = 1_000
    """Events that wait for room, the most severe first; findings come again anyway."""
    parts_max: int = 2_000
    """Findings that one alert remembers; beyond it those that are over are forgotten first."""
    members_max: int = 50
    """Members in a record, the likeliest causes first."""
    silences_max: int = 1_000
    marks_max: int = 1_000
    topology_max: int = 200_000
    """GPUs, engines, hosts or tenants remembered, each; later ones are not connected to anything."""
    forget_ms: int = DAY_MS
    """What was not seen for so long is no longer part of the topology."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int) or value <= 0:
                raise ConfigError(f"alerts.{name}", value, "must be a whole number above 0")


DEFAULT_POLICY = AlertPolicy()
