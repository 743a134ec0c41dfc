"""The built-in rules, beside those of a file."""

from __future__ import annotations

from dataclasses import replace

from stream_jobs.insight.fleet_detector import JUDGING_INCOMPLETE, with_builtin
from stream_jobs.rules.model import RuleSet
from tests.unit.stream_jobs.insight.cases import a_rule


def test_the_built_in_rule_is_known_beside_those_of_the_file() -> None:
    """Last, and once."""
    ruleset = RuleSet((a_rule(),))

    assert with_builtin(ruleset).rules == (a_rule(), JUDGING_INCOMPLETE)
    assert with_builtin(with_builtin(ruleset)) == with_builtin(ruleset)


def test_a_rule_of_a_file_goes_before_the_built_in_one() -> None:
    """So that its severity and words can be changed."""
    ruleset = RuleSet((replace(JUDGING_INCOMPLETE, severity="critical"),))

    assert with_builtin(ruleset) == ruleset
