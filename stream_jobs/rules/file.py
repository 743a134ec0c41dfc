"""The shape of a rule file, as in ``docs/how-to/rules.md``: rules, silences, service classes and GPU events. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, Self

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, model_validator

from schemas.contract.alert_commands import LABELS_MAX, MUTE_MS_MAX, TEXT_CHARS_MAX, Command
from schemas.contract.alerts import SEVERITIES
from schemas.contract.recurrence import FORM, spans_of, zone_of
from schemas.events.event_fields import GPU_EVENT_KINDS, HOUR_US
from schemas.events.event_fields import SEVERITIES as REPORTED
from schemas.limits import DAY_MS, MINUTE_MS, WINDOW_MS
from stream_jobs.rules.model import GpuEvent, RuleSet, SloClass
from stream_jobs.rules.rule_entry import LABELS, LATENCIES, RuleEntry, duration
from stream_jobs.rules.units import level
from stream_jobs.yaml_files import fields
from stream_jobs.yaml_files.errors import WrongError, nearest, quoted
from stream_jobs.yaml_files.sections import Section
from stream_jobs.yaml_files.tree import Word

ENTRIES_MAX = 1_000
SILENCE_LABELS = (*LABELS, "rule", "severity", "fingerprint", "budget", "team")
OF_NO_RULE = (
    *("gpu_xid", "gpu_ecc", "gpu_recovery", "gpu_clocks", "gpu_lost", "gpu_unresponsive", "gpu_driver_restart"),
    *("engine_lost", "judging_incomplete", "budget", "spend"),
)
"""What alerts that no rule made have as their rule: events, incomplete windows, money."""
_LASTS_MS = 30 * MINUTE_MS
_CODE_MAX = 100_000


def _moment(text: str) -> int | None:
    found = datetime.fromisoformat(text)
    return None if found.tzinfo is None else max(0, round(found.astimezone(UTC).timestamp() * 1_000))


Moment = fields.parsed(_moment, "must be a time with its zone, such as 2026-12-01T06:00:00Z")


class Names(NamedTuple):
    """Of rules: as they are ``written``, and as their alerts have them (``judging``), one for each service class."""

    written: Collection[str]
    judging: Collection[str]


def _labels(labels: Mapping[str, Word], info: ValidationInfo) -> dict[str, str]:
    names: Any = info.context
    if not 1 <= len(labels) <= LABELS_MAX:
        raise ValueError(f"must be 1 to {LABELS_MAX} labels")
    rule, known = labels.get("rule"), (*names.judging, *OF_NO_RULE)
    if rule is not None and rule not in known:
        raise WrongError((rule.at, f"rule {quoted(rule)} is not known; {nearest(rule, known)}"))
    return {label: value[:TEXT_CHARS_MAX] for label, value in labels.items()}


def _recurrence(text: str) -> str | None:
    return " ".join(text.split()) if spans_of(text) else None


def _zone(text: str) -> str | None:
    return str(text) if zone_of(text) else None


ALWAYS_MS = 4_102_444_800_000
"""2100-01-01: the end of what comes again without one."""


class SilenceEntry(Section):
    """``{labels: {host: gpu-007}, until: 2026-12-01T06:00:00Z, reason: new fans}``, or what comes again:
    ``{labels: {cluster: eu-1}, every: Sat 22:00-06:00, zone: Europe/Berlin, reason: maintenance}``."""

    labels: Annotated[Mapping[Annotated[str, fields.choice(SILENCE_LABELS)], fields.Text], AfterValidator(_labels)]
    until_ms: Annotated[int | None, Moment] = Field(None, alias="until")
    from_ms: Annotated[int | None, Moment] = Field(None, alias="from")
    every: Annotated[str, fields.parsed(_recurrence, FORM)] = ""
    zone: Annotated[str, fields.parsed(_zone, "must be a time zone of the IANA database, such as Europe/Berlin")] = (
        "UTC"
    )
    reason: fields.Sentence

    @property
    def begins_ms(self) -> int:
        """Without ``from`` as early as a silence can begin."""
        earliest_ms = 0 if self.every else max(0, self.ends_ms - MUTE_MS_MAX)
        return earliest_ms if self.from_ms is None else self.from_ms

    @property
    def ends_ms(self) -> int:
        """What comes again needs no end."""
        return ALWAYS_MS if self.until_ms is None else self.until_ms

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.until_ms is None and not self.every:
            raise ValueError("until is missing: say when it ends, or when it comes again: every")
        if self.zone != "UTC" and not self.every:
            raise ValueError("zone is of what comes again; add every, or leave it out")
        if not 0 < self.ends_ms - self.begins_ms <= (ALWAYS_MS if self.every else MUTE_MS_MAX):
            raise ValueError(f"a silence must end after it begins, {MUTE_MS_MAX // DAY_MS} days later at most")
        return self

    def command(self, number: int) -> Command:
        """As the alert job takes it."""
        reason = self.reason[:TEXT_CHARS_MAX]
        between = (self.begins_ms, self.ends_ms)
        return Command("mute", f"rules-{number}", self.labels, *between, reason, "rules", self.every, self.zone)


def _latency(text: str) -> int | None:
    found = level(text, "us")
    return None if found is None or not 0 < found <= HOUR_US or found != int(found) else int(found)


def _share(text: str) -> float | None:
    found = level(text, "share")
    return None if found is None or not 0.5 <= found < 1 else found


Latency = Annotated[int | None, fields.parsed(_latency, "must be a time with a unit above 0: 800ms, 2s")]


class SloEntry(Section):
    """``{ttft: 800ms, tpot: 60ms, share: 99%}``."""

    ttft_us: Latency = Field(None, alias="ttft")
    tpot_us: Latency = Field(None, alias="tpot")
    e2e_us: Latency = Field(None, alias="e2e")
    share: Annotated[float, fields.parsed(_share, "must be at least 50% and below 100%, such as 99%")]

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not (self.ttft_us or self.tpot_us or self.e2e_us):
            raise ValueError(f"needs an objective: {', '.join(LATENCIES)}")
        return self


EventKinds = fields.OneOrMore[Annotated[str, fields.choice(GPU_EVENT_KINDS)]]


class GpuEventEntry(Section):
    """``{kind: xid, code: [79], severity: critical, advice: ..., lasts: 30m}``."""

    kind: EventKinds
    code: fields.OneOrMore[Annotated[int, fields.whole(0, _CODE_MAX)]] = ()
    reported: fields.OneOrMore[Annotated[str, fields.choice(REPORTED)]] = ()
    severity: Annotated[str, fields.choice((*SEVERITIES, "none"))]
    advice: fields.Sentence = ""
    ended_by: EventKinds = ()
    lasts_ms: Annotated[int, duration(WINDOW_MS, 30 * DAY_MS)] = Field(_LASTS_MS, alias="lasts")

    def event(self) -> GpuEvent:
        """As data."""
        severity = None if self.severity == "none" else self.severity
        return GpuEvent(self.kind, self.code, self.reported, severity, self.advice, self.ended_by, self.lasts_ms)


def _rule_name(value: Any, info: ValidationInfo) -> str:
    names: Any = info.context
    return fields.chosen(value, names.written)


def slo_class(name: str, entry: SloEntry) -> SloClass:
    """As data."""
    return SloClass(str(name)[:TEXT_CHARS_MAX], **dict(entry))


class RuleFile(Section):
    """The whole file, with what it includes; the context are ``Names`` of its rules."""

    include: Annotated[str, fields.choice(("defaults",))] = ""
    disable: fields.OneOrMore[Annotated[str, PlainValidator(_rule_name)]] = ()
    silences: Annotated[tuple[SilenceEntry, ...], fields.up_to(ENTRIES_MAX)] = ()
    slo_classes: Annotated[Mapping[fields.Text, SloEntry], fields.up_to(ENTRIES_MAX, {})] = Field({})
    gpu_events: Annotated[tuple[GpuEventEntry, ...], fields.up_to(ENTRIES_MAX)] = ()
    rules: Annotated[
        tuple[RuleEntry, ...], fields.up_to(ENTRIES_MAX), fields.once(lambda one, _: one.name, "give it another name")
    ] = ()

    def rule_set(self) -> RuleSet:
        """As data."""
        rules = [(one.rule(), one.enabled) for one in self.rules if not one.only_checked]
        return RuleSet(
            rules=tuple(rule for rule, enabled in rules if enabled),
            silences=tuple(one.command(number) for number, one in enumerate(self.silences, 1)),
            slo_classes=tuple(slo_class(name, one) for name, one in self.slo_classes.items()),
            gpu_events=tuple(one.event() for one in self.gpu_events),
            disabled=tuple(rule for rule, enabled in rules if not enabled),
        )
