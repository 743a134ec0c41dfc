"""The table of kinds: consistent in itself, with the detectors, and with the guide."""

from __future__ import annotations

import re
from pathlib import Path

from stream_jobs.insight.detectors import DETECTORS
from stream_jobs.rules.kinds import KINDS, Form
from stream_jobs.rules.load import parse_set
from stream_jobs.rules.rule_entry import RuleEntry
from tests.unit.stream_jobs.rules.kinds_table import markdown

GUIDE = (Path(__file__).resolve().parents[4] / "docs" / "how-to" / "rules.md").read_text()


def test_the_guide_has_the_table() -> None:
    """A changed kind changes the guide: replace what stands between the marks by ``kinds_table.markdown()``."""
    found = re.search(r"<!-- kinds: begin -->\n(.*)\n<!-- kinds: end -->", GUIDE, re.DOTALL)

    assert found
    assert found[1] == markdown()


def test_the_guide_has_every_key_of_a_rule() -> None:
    """One line of the table for each."""
    keys = re.findall(r"^\| `(\w+)` \|", GUIDE.partition("## A rule")[2].partition("## Metrics")[0], re.MULTILINE)

    assert keys == [
        *("name", "kind", "metric", "topic", "where", "measures", "by", "while", "window", "for", "clear_after"),
        *("min_count", "severity", "renotify", "summary", "advice", "options", "slo", "enabled"),
    ]
    assert sorted(keys) == sorted(RuleEntry.key_names())


def test_the_guides_example_is_valid() -> None:
    """What people copy works."""
    example = re.search(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)

    assert example
    found = parse_set(example[1].encode(), "docs/how-to/rules.md")
    assert {"gpu_hot", "chat_slow", "slo_ttft_interactive", "slo_e2e_batch"} <= {rule.name for rule in found.rules}


def test_every_detector_has_its_kind() -> None:
    """No detector without a line here."""
    assert set(DETECTORS) <= set(KINDS)


def test_defaults_lie_within_their_bounds() -> None:
    """A default is an option that could have been written."""
    for kind in KINDS.values():
        for option in kind.options:
            if isinstance(option.default, int | float) and not isinstance(option.default, bool):
                assert option.low is None or option.default >= option.low, option
                assert option.high is None or option.default <= option.high, option
            if option.form is Form.CHOICE:
                assert option.default in option.choices, option
            assert option.of in [slot.name for slot in kind.measures], option
        assert all(kind.option(name).default is None for group in kind.one_of for name in group), kind
        assert kind.measures[0].name == "value", kind
