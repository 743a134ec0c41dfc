"""Rules that are not in any file: what detection says of its own work."""

from __future__ import annotations

from dataclasses import replace

from schemas.limits import MINUTE_MS
from stream_jobs.rules.model import Function, Measure, Rule, RuleSet

PATIENCE_MS = 5 * MINUTE_MS
"""When windows have been incomplete for longer in a row, a finding says so, and rules go by what there is."""
JUDGING_INCOMPLETE = Rule(
    "judging_incomplete",
    "builtin",
    (Measure("value", "", Function.COUNT, text="windows without some source", unit="ms"),),
    (),
    "warning",
    "Windows have been judged without some source for {value}: what stands behind it is not watched.",
    "Look for the source partition whose watermark stands still, and for the windows and finals jobs' logs: one that "
    "nobody owns, a stopped job, or fewer partitions in the contract than the topic has.",
)
"""No labels. Its value is how long it has been so, in ms."""


def with_builtin(ruleset: RuleSet) -> RuleSet:
    """The rules and the built-in ones; a rule of the same name in a file goes before."""
    if any(rule.name == JUDGING_INCOMPLETE.name for rule in ruleset.rules):
        return ruleset
    return replace(ruleset, rules=(*ruleset.rules, JUDGING_INCOMPLETE))
