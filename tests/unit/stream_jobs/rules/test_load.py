"""Rule files: what they make, and every mistake with its line and the nearest valid name.

Covers stream_jobs.rules.measures.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.contract.alert_commands import Command
from stream_jobs.alerts import spending
from stream_jobs.alerts.events import ENGINE_LOST, GPU_KINDS
from stream_jobs.insight.fleet_detector import JUDGING_INCOMPLETE
from stream_jobs.rules.file import ALWAYS_MS, ENTRIES_MAX, OF_NO_RULE, RuleFile
from stream_jobs.rules.kinds import KINDS
from stream_jobs.rules.load import load, load_set, merged, parse_set, shipped
from stream_jobs.rules.model import Function, GpuEvent, Measure, Rule, RuleSet, SloClass, Where, While
from stream_jobs.rules.rule_entry import WINDOWS_MAX, RuleEntry
from stream_jobs.yaml_files.errors import PROBLEMS_MAX, FileError
from stream_jobs.yaml_files.tree import BYTES_MAX, parse

RULE_KEYS, FILE_KEYS = RuleEntry.key_names(), RuleFile.key_names()
INF = float("inf")
RULE = "{name: hot, kind: threshold, metric: mean(temperature_c), by: [host], options: {above: 85C}}"


def read(text: str) -> RuleSet:
    return parse_set(text.encode(), "my.yaml")


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(FileError) as caught:
        parse_set(text.encode() if isinstance(text, str) else text, "my.yaml")
    return list(caught.value.problems)


def rule_with(change: str) -> str:
    """A good rule in block style whose lines are 2 to 7, with one line replaced or added."""
    lines = {
        "name": "name: hot",
        "kind": "kind: threshold",
        "metric": "metric: mean(temperature_c)",
        "by": "by: [host]",
        "options": "options: {above: 85C}",
    }
    lines[change.partition(":")[0]] = change
    return "rules:\n  - " + "\n    ".join(lines.values())


def test_a_rule_says_everything_in_peoples_units() -> None:
    """Units become the column's, durations milliseconds, where-lists tuples; nothing is lost."""
    text = """
rules:
  - name: slow
    kind: threshold
    metric: p95(ttft_us)
    where: {status: ok, start: [warm, null], error_kind: {not: [client]}}
    measures:
      load: {metric: mean(running), where: {precision: fp8}}
    while: {load: {above: 4, below: 90requests}}
    by: [model, model_version]
    window: 1m
    for: 3 of 5
    clear_after: 4
    min_count: 20
    severity: critical
    renotify: 2h
    summary: "{model} is at {value}, was {baseline}"
    advice: look
    options: {above: 250ms, leave: 0.2s}
"""

    assert read(text).rules == (
        Rule(
            name="slow",
            kind="threshold",
            measures=(
                Measure(
                    "value",
                    "llm.requests",
                    Function.PERCENTILE,
                    "ttft_us",
                    q=0.95,
                    where=(
                        Where("status", ("ok",)),
                        Where("start", ("warm", None)),
                        Where("error_kind", ("client",), negated=True),
                    ),
                    text="p95(ttft_us)",
                    unit="us",
                ),
                Measure(
                    "load",
                    "engine.samples",
                    Function.MEAN,
                    "running",
                    where=(Where("precision", ("fp8",)),),
                    text="mean(running)",
                    unit="requests",
                ),
            ),
            by=("model", "model_version"),
            severity="critical",
            summary="{model} is at {value}, was {baseline}",
            advice="look",
            window_ms=60_000,
            m=3,
            n=5,
            clear_after=4,
            min_count=20,
            renotify_ms=7_200_000,
            options={"above": 250_000.0, "below": None, "leave": 200_000.0},
            where_read="my.yaml:3",
            only_while=(While("load", 4.0, 90.0),),
        ),
    )


def test_what_is_not_said_has_a_default() -> None:
    """Warning, every ten seconds, at once, every option of the kind."""
    rule = read("rules: [{name: off, kind: deviation, metric: p50(tpot_us), by: [model]}]").rules[0]

    assert (rule.severity, rule.window_ms, rule.m, rule.n, rule.clear_after, rule.min_count) == (
        "warning",
        10_000,
        1,
        1,
        3,
        1,
    )
    assert rule.options == {option.name: option.default for option in KINDS["deviation"].options}
    assert rule.summary == "off: p50(tpot_us) is {value}"


MISTAKES = [
    ("kind: treshold", 3, "kind: 'treshold' is not known; did you mean threshold?"),
    ("colour: red", 7, "colour: unknown key"),
    ("metric: mean(temprature_c)", 4, "metric: column 'temprature_c' is not known; did you mean temperature_c?"),
    ("metric: mena(temperature_c)", 4, "no function 'mena'; did you mean mean?"),
    (
        "metric: p95(temperature_c)",
        4,
        "temperature_c (gauge) takes mean, min, max, last, ratio",
    ),
    ("metric: p0(ttft_us)", 4, "a percentile is p1 to p99.999"),
    ("metric: mean(temperature_c, power_mw)", 4, "must name 1 column"),
    ("metric: ratio(energy_mj, power_mw)", 4, "a ratio is of two amounts or of two levels"),
    ("metric: ratio(energy_mj, waiting)", 4, "metric: columns energy_mj and waiting are not of one topic"),
    ("metric: temperature", 4, "cannot be read"),
    ("metric: share(status)", 4, "write share(status in error, timeout)"),
    ("metric: share(status in eror)", 4, "metric: status is never 'eror'; did you mean error?"),
    ("metric: share(ttft_us > 5C)", 4, "'5C' must be a number with a unit"),
    ("metric: count()", 4, "may be of llm.requests or gpu.samples"),
    ("topic: gpu.sample", 7, "topic: 'gpu.sample' is not known; did you mean gpu.samples?"),
    ("by: [hots]", 5, "by: dimension 'hots' is not known; did you mean host?"),
    ("by: [host, tenant]", 5, "metric: dimension 'tenant' is not one of gpu.samples"),
    ("by: [host, host]", 5, "by: must name at most 8 dimensions, each once"),
    ("where: {workload: infrence}", 7, "workload is never 'infrence'; did you mean inference?"),
    ("where: {tenant: a}", 7, "dimension 'tenant' is not one of gpu.samples"),
    ("where: {host: {is: a}}", 7, "write a value, a list, or {not: ...}"),
    ("window: 15s", 7, "window: '15s' must be a multiple of 10s"),
    ("window: 2h", 7, "from 10s to 3600s"),
    ("window: 10", 7, "with a unit"),
    ("for: 5 of 3", 7, "must be like `2` or `3 of 5`"),
    (f"for: {WINDOWS_MAX + 1}", 7, f"at most {WINDOWS_MAX}"),
    ("clear_after: 0", 7, "must be a whole number from 1"),
    ("min_count: -1", 7, "must be a whole number from 1"),
    ("min_count: 0", 7, "must be a whole number from 1"),
    ("severity: fatal", 7, "severity: 'fatal' is not known; valid: critical, info, warning"),
    ("renotify: 5s", 7, "renotify: '5s' must be whole seconds with a unit (30s, 5m, 2h, 1d) from 60s"),
    ("summary: '{modl} burns'", 7, "summary: {modl} is not known; did you mean model?"),
    ("summary: '{value:.2f}'", 7, "summary: {value} is not known"),
    ("summary: '{value'", 7, "summary: "),
    ("name: Hot!", 2, "name: 'Hot!' must be small letters"),
    ("enabled: maybe", 7, "enabled: must be true or false"),
    ("options: {above: 85}", 6, "options.above: '85': mean(temperature_c) is in C; write the unit: C, °C"),
    ("options: {above: 85F}", 6, "options.above: '85F': mean(temperature_c) is in C; unit 'F' does not fit"),
    ("options: {above: .nan}", 6, "options.above: '.nan': must be a finite number with a unit"),
    ("options: {above: 1e999C}", 6, "options.above: '1e999C': must be a finite number"),
    (
        "options: {above: 3000C}",
        6,
        "'3000C' is out of reach: mean(temperature_c) lies between -100C and 300C",
    ),
    ("options: {above: 85C, below: 10C}", 6, "options: give above or below, one of them"),
    ("options: {leave: 85C}", 6, "options: give above or below, one of them"),
    ("options: {above: 85C, leave: 86C}", 6, "options: leave lies on the wrong side"),
    ("options: {below: 85C, leave: 84C}", 6, "options: leave lies on the wrong side"),
    ("options: {abvoe: 85C}", 6, "options.abvoe: unknown key; did you mean above?"),
    ("measures: {load: mean(power_mw)}", 7, "measure load is not read: threshold reads value; use it in while"),
    ("while: {load: {above: 1}}", 7, "while: no measure 'load'"),
    ("while: {value: {abov: 1C}}", 7, "while: value.abov: 'abov' is not known; did you mean above?"),
    ("while: {value: {above: 9C, below: 9C}}", 7, "while: value: give above or below or both, above less than below"),
    ("while: {value: {}}", 7, "while: value: give above or below or both, above less than below"),
    ("options: {above: 300C}", 6, "above: mean(temperature_c) is never above 300C; write a lower level"),
    ("options: {below: -100C}", 6, "below: mean(temperature_c) is never below -100C; write a higher level"),
    ("slo: ttft", 7, "slo: makes the metric; leave metric out"),
    ("kind: given", 3, "kind: 'given' is not known; its name is load_adjusted now"),
    ("slo: tpft", 7, "slo: 'tpft' is not known; did you mean ttft?"),
]


@pytest.mark.parametrize(("change", "line", "wrong"), MISTAKES, ids=[change for change, _, _ in MISTAKES])
def test_a_mistake_has_its_line_its_key_and_what_would_be_right(change: str, line: int, wrong: str) -> None:
    """``file:line: rules.NAME.key: what is wrong; the nearest valid name``."""
    found = problems(rule_with(change))

    name = "Hot!" if change.startswith("name") else "hot"
    here = [one for one in found if one.startswith(f"my.yaml:{line}: rules.{name}") and wrong in one]
    assert here, found


def test_the_rule_that_is_changed_for_mistakes_is_good() -> None:
    """Each case above has exactly the mistake it says."""
    assert [rule.name for rule in read(rule_with("kind: threshold")).rules] == ["hot"]


def test_all_mistakes_come_together_in_order_of_lines() -> None:
    """One run finds everything, in the file's order, and no rule is in force."""
    found = problems(
        rule_with("severity: fatal").replace("[host]", "[hots]").replace("temperature_c", "temp") + "\nextra: 1"
    )

    assert [line.partition(": ")[0] for line in found] == ["my.yaml:4", "my.yaml:5", "my.yaml:7", "my.yaml:8"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("kind: deviation, options: {leave_sigmas: 5}", "leave_sigmas must not be above enter_sigmas"),
        ("kind: moving_average, options: {leave_percent: 20}", "leave_percent must not be above percent"),
        ("kind: moving_average, options: {direction: up}", "options.direction: 'up' is not known"),
        ("kind: no_data, options: {after_s: 2d}", "after_s must not be above forget_after_s"),
        ("kind: trend, options: {min_slope_per_hour: 0.1, leave: 0.2}", "leave lies on the wrong side"),
        ("kind: straggler", "options: group = engine_id must be one of by: model"),
        ("kind: load_adjusted", "measures: load_adjusted needs the measure load"),
        ("kind: deviation, options: {log: 1}", "options.log: must be true or false"),
        (
            "kind: deviation, options: {warm_up_windows: 1}",
            "warm_up_windows: '1' must be a whole number from 2",
        ),
        ("kind: burn_rate, options: {pairs: [[5m, 1h, 3]]}", "short < long"),
        ("kind: burn_rate, options: {pairs: [1h]}", "options.pairs: must be a list"),
        ("kind: burn_rate, options: {objective: 110%}", "options.objective: '110%' must be a share"),
        ("kind: deviation, options: {min_relative: 15}", "min_relative: '15' could mean 15% or 1500%: write the one"),
        ("kind: deviation, options: {floor_relative: 2.2}", "floor_relative: '2.2' could mean 2.2% or 220%: write"),
        ("kind: deviation, options: {min_relative: 10001%}", "'10001%' must be a share from 0 to 100"),
        ("kind: burn_rate, options: {objective: 99.5}", "objective: '99.5' could mean 99.5% or 9950%"),
        (
            "kind: burn_rate, options: {objective: 80%, pairs: [[1h, 5m, 6], [6h, 30m, 5.1]]}",
            "pairs: 5.1 is out of reach: all requests burn 5 times the budget of objective 0.8",
        ),
    ],
)
def test_options_are_checked_by_their_kind(options: str, said: str) -> None:
    """Bounds, forms and relations of the table of kinds hold."""
    found = problems(f"rules: [{{name: one, metric: p50(ttft_us), by: [model], {options}}}]")

    assert any(said in line for line in found), found


COUNTED = "rules: [{{name: one, topic: llm.requests, metric: '{}', by: [model], {}}}]"


@pytest.mark.parametrize(
    ("metric", "options", "said"),
    [
        ("count()", "kind: threshold, options: {below: 0}", "below: count() is never below 0; write a higher level"),
        ("rate()", "kind: threshold, options: {below: 0/s}", "below: rate() is never below 0; write a higher level"),
        (
            "share(status in error)",
            "kind: threshold, options: {above: 100%}",
            "above: share(status in error) is never above 1; write a lower level",
        ),
        (
            "p50(ttft_us)",
            "kind: burn_rate",
            "rules.one: burn_rate reads a share of bad requests, and p50(ttft_us) is none; write a metric like share(",
        ),
        ("count()", "kind: burn_rate", "burn_rate reads a share of bad requests, and count() is none"),
        ("count()", "kind: straggler, options: {group: model}", "group: each model is a group of its own and has no"),
        (
            "count()",
            "kind: no_data, while: {value: {above: 5}}",
            "while: no_data judges series that are silent, of which no measure is known; leave while out",
        ),
    ],
)
def test_what_can_never_fire_or_would_always_is_refused(metric: str, options: str, said: str) -> None:
    """With what to change."""
    (line,) = problems(COUNTED.format(metric, options))

    assert said in line


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("count()", "kind: threshold, options: {above: 0}"),
        ("share(status in error)", "kind: threshold, options: {above: 0%}"),
        ("share(status in error)", "kind: threshold, options: {below: 100%}"),
        ("ratio(output_tokens, input_tokens)", "kind: threshold, options: {above: 1000%}"),
        ("ratio(output_tokens, input_tokens)", "kind: burn_rate"),
        ("rate()", "kind: rate_of_change, options: {below: 0/s}"),
        ("count()", "kind: no_data, while: {}"),
    ],
)
def test_what_may_fire_is_taken(metric: str, options: str) -> None:
    """At a bound, levels on its other side; of a ratio, a bound that it may pass; changes below zero."""
    assert len(read(COUNTED.format(metric, options)).rules) == 1


NONE_JUDGED = "rules: [{{name: one, kind: threshold, topic: llm.requests, metric: {}, by: [model], min_count: 0,{}}}]"


@pytest.mark.parametrize(("metric", "below"), [("count()", "5"), ("rate()", "5/s")])
def test_none_at_all_is_judged_where_it_is_asked_for(metric: str, below: str) -> None:
    """Of events that are counted."""
    (rule,) = read(NONE_JUDGED.format(metric, f" options: {{below: {below}}}")).rules

    assert rule.min_count == 0


@pytest.mark.parametrize(
    ("metric", "below"), [("rate(output_tokens)", "5/s"), ("share(status in error)", "5%"), ("p50(ttft_us)", "5ms")]
)
def test_without_an_event_nothing_is_known_of_anything_else(metric: str, below: str) -> None:
    """No tokens reported are not zero tokens."""
    (line,) = problems(NONE_JUDGED.format(metric, f" options: {{below: {below}}}"))

    assert "min_count: '0' must be a whole number from 1" in line


def test_dimensions_that_cannot_be_had_together_name_the_sets_that_can() -> None:
    """No grouping set keeps tenant and host: the sentence lists what each one keeps."""
    found = problems("rules: [{name: one, kind: deviation, metric: p50(ttft_us), by: [tenant, host]}]")

    assert len(found) == 1
    assert "llm.requests has no rows by tenant, host together; what can be had: service: cluster, region" in found[0]
    assert "engine: cluster, region, host" in found[0]


def test_another_measure_may_know_fewer_labels_than_the_first() -> None:
    """Processors of a host stand for each of its engines; a measure that knows none of the labels is refused."""
    text = (
        "rules: [{{name: one, kind: starved, metric: mean(sm_active_ppm), by: [{by}], options: {{below: 20%}}, "
        "measures: {{waiting: mean(waiting), cpu: mean(cpu_busy_ppm)}}}}]"
    )

    assert [one.topic for one in read(text.format(by="host, engine_id")).rules[0].measures] == [
        "gpu.samples",
        "engine.samples",
        "host.samples",
    ]
    assert "host.samples has no rows by engine_id together" in problems(text.format(by="engine_id"))[0]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "my.yaml:1: the file is empty; it needs `rules:` or `include: defaults`"),
        (b"[1]", "my.yaml:1: the file must be a mapping"),
        (b"rules: []\n\nruls: []", "my.yaml:3: ruls: unknown key; did you mean rules?"),
        (b"rules: [", "this is no YAML"),
        (b"mutes: []", "my.yaml:1: mutes: unknown key; its name is silences now"),
        (b"include: default", "my.yaml:1: include: 'default' is not known; did you mean defaults?"),
        (b"rules: 5", "my.yaml:1: rules: must be a list"),
        (b"rules: [5]", "my.yaml:1: rules: must be a mapping"),
        (b"rules: ['']\ndisable: ''", "my.yaml:1: rules: must be a mapping"),
        (b"include: defaults\ndisable: [{}]\nrules: [5, [x], {name: [a]}]", "my.yaml:3: rules: must be a mapping"),
        (b"rules: [" + (ENTRIES_MAX + 1) * b"1," + b"]", f"my.yaml:1: rules: has more than {ENTRIES_MAX} entries"),
        (b"rules: {}", "my.yaml:1: rules: must be a list"),
        (b"rules: [{kind: threshold}]", "my.yaml:1: rules.name: is missing"),
    ],
)
def test_what_is_no_rule_file_is_refused(data: bytes, said: str) -> None:
    """Bytes, syntax and shape; bombs end early."""
    assert any(said in line for line in problems(data)), problems(data)


def test_the_limit_of_bytes_is_allowed() -> None:
    """On the boundary."""
    data = b"rules: []\n"

    assert parse_set(data + b"#" * (BYTES_MAX - len(data)), "my.yaml") == RuleSet(())


def test_more_mistakes_than_people_read_are_counted() -> None:
    """The text ends with how many are left."""
    with pytest.raises(FileError) as caught:
        read("\n".join(f"key_{number}: 1" for number in range(PROBLEMS_MAX + 5)))

    assert len(caught.value.problems) == PROBLEMS_MAX + 5
    assert str(caught.value).splitlines()[-1] == "my.yaml: and 5 more"


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    """No such file, a directory, a name that no system takes."""
    for path in (tmp_path / "none.yaml", tmp_path, Path("a\0b")):
        with pytest.raises(FileError, match="cannot be read: "):
            load_set(path)


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    """``load`` gives the rules that judge; a byte order mark is no mistake."""
    path = tmp_path / "my.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + f"rules: [{RULE}]".encode())

    assert [(rule.name, rule.where_read) for rule in load(path)] == [("hot", f"{path}:1")]


def test_names_stand_once() -> None:
    """The second one is told where the first stands."""
    assert problems(f"rules:\n  - {RULE}\n  - {RULE}") == [
        "my.yaml:3: rules: the same stands already at my.yaml:2; give it another name"
    ]


def test_a_rule_of_the_same_name_changes_a_shipped_one() -> None:
    """Keys that are given replace; options one by one; the rest stays as shipped, in its place."""
    before = {rule.name: rule for rule in load()}
    found = read("include: defaults\nrules: [{name: gpu_hot, severity: critical, options: {above: 80C, leave: 75C}}]")
    changed = {rule.name: rule for rule in found.rules}

    assert list(changed) == list(before)
    assert changed["gpu_hot"].options == {"above": 80.0, "below": None, "leave": 75.0}
    assert (changed["gpu_hot"].severity, changed["gpu_hot"].where_read) == ("critical", "my.yaml:2")
    assert changed["gpu_hot"].summary == before["gpu_hot"].summary
    assert {name: rule for name, rule in changed.items() if name != "gpu_hot"} == {
        name: rule for name, rule in before.items() if name != "gpu_hot"
    }


def test_the_other_side_replaces_the_shipped_one() -> None:
    """``below`` takes the place of ``above`` and of its leaving level."""
    found = read("include: defaults\nrules: [{name: gpu_hot, options: {below: 5C}}]")

    assert found.rules[0].options == {"above": None, "below": 5.0, "leave": None}


def test_another_kind_inherits_no_options() -> None:
    """Those of a threshold mean nothing to a deviation."""
    found = read("include: defaults\nrules: [{name: gpu_hot, kind: deviation}]")

    assert found.rules[0].options == {option.name: option.default for option in KINDS["deviation"].options}


def test_single_rules_are_switched_off_and_on() -> None:
    """``disable`` takes names; ``enabled`` switches a shipped one on; what is off was still checked."""
    shipped_off = [rule.name for rule in load_set().disabled]
    found = read("include: defaults\ndisable: [gpu_hot]\nrules: [{name: ttft_moving_average, enabled: true}]")

    assert shipped_off == ["ttft_moving_average"]
    assert [rule.name for rule in found.disabled] == ["gpu_hot"]
    assert "ttft_moving_average" in [rule.name for rule in found.rules]


def test_an_unknown_name_cannot_be_switched_off() -> None:
    """Else a misspelt one would go on waking people."""
    assert problems("include: defaults\ndisable: [gpu_hott]") == [
        "my.yaml:2: disable: 'gpu_hott' is not known; did you mean gpu_hot?"
    ]


def test_silences_become_commands() -> None:
    """With an end, a reason and labels; without a beginning they begin as early as a silence can."""
    day_ms = 86_400_000
    text = """
include: defaults
silences:
  - {labels: {host: gpu-007, rule: gpu_hot}, from: 2026-12-01T00:00:00Z, until: 2026-12-01T06:00:00+00:00,
     reason: new fans}
  - {labels: {model: a}, until: 2026-12-01T00:00:00Z, reason: known}
"""
    begin_ms = 1_796_083_200_000

    assert read(text).silences == (
        Command(
            "mute",
            "rules-1",
            {"host": "gpu-007", "rule": "gpu_hot"},
            begin_ms,
            begin_ms + day_ms // 4,
            "new fans",
            "rules",
        ),
        Command("mute", "rules-2", {"model": "a"}, begin_ms - 90 * day_ms, begin_ms, "known", "rules"),
    )


def test_a_silence_that_comes_again_needs_no_end() -> None:
    """It is written where everybody sees it; with an end it ends."""
    text = """
include: defaults
silences:
  - {labels: {cluster: eu-1}, every: "Sat  22:00-06:00", zone: Europe/Berlin, reason: maintenance}
  - {labels: {rule: gpu_hot}, every: day 02:00-04:00, until: 2026-12-01T00:00:00Z, reason: batch}
"""
    first, second = read(text).silences

    assert (first.from_ms, first.until_ms, first.every, first.zone) == (0, ALWAYS_MS, "Sat 22:00-06:00", BERLIN)
    assert (second.from_ms, second.until_ms, second.every, second.zone) == (0, 1_796_083_200_000, NIGHTLY, "UTC")


BERLIN, NIGHTLY = "Europe/Berlin", "day 02:00-04:00"


@pytest.mark.parametrize(
    ("silence", "wrong"),
    [
        ("{until: 2026-12-01T00:00:00Z, reason: x}", "labels: is missing"),
        ("{labels: {}, until: 2026-12-01T00:00:00Z, reason: x}", "labels: must be 1 to 16 labels"),
        (
            "{labels: {hots: a}, until: 2026-12-01T00:00:00Z, reason: x}",
            "labels.hots: 'hots' is not known; did you mean host?",
        ),
        ("{labels: {host: a}, reason: x}", "until is missing: say when it ends, or when it comes again: every"),
        ("{labels: {host: a}, every: saturdays, reason: x}", "must be like `Mon-Fri 22:00-06:00`"),
        ("{labels: {host: a}, every: Sat 01:00-02:00, zone: Berlin, reason: x}", "must be a time zone of the IANA"),
        ("{labels: {host: a}, until: 2026-12-01T00:00:00Z, zone: Europe/Berlin, reason: x}", "add every"),
        ("{labels: {host: a}, until: tomorrow, reason: x}", "must be a time with its zone"),
        ("{labels: {host: a}, until: 2026-12-01T00:00:00, reason: x}", "must be a time with its zone"),
        ("{labels: {host: a}, until: 2026-12-01T00:00:00Z}", "reason: is missing"),
        (
            "{labels: {host: a}, from: 2026-12-02T00:00:00Z, until: 2026-12-01T00:00:00Z, reason: x}",
            "must end after it begins",
        ),
    ],
)
def test_a_silence_without_an_end_or_a_reason_is_refused(silence: str, wrong: str) -> None:
    """A silence is forgotten, and would hide alerts for ever."""
    found = problems(f"rules: []\nsilences:\n  - {silence}")

    assert len(found) == 1
    assert found[0].startswith("my.yaml:3: silences")
    assert wrong in found[0]


CLASSED = "include: defaults\nslo_classes: {gold: {ttft: 800ms, share: 99%}}\nsilences:\n"


@pytest.mark.parametrize(("rule", "meant"), [("gpu_hott", "gpu_hot"), ("slo_ttft", "slo_ttft_gold")])
def test_a_silence_of_a_rule_that_no_alert_has_is_refused(rule: str, meant: str) -> None:
    """It would match nothing; of a rule for service classes there is one for each of them."""
    found = problems(f"{CLASSED}  - {{labels: {{rule: {rule}}}, every: day 02:00-04:00, reason: x}}")

    assert found == [f"my.yaml:4: silences.labels: rule '{rule}' is not known; did you mean {meant}?"]


def test_alerts_that_no_rule_made_can_be_silenced_by_name() -> None:
    """Events of GPUs and engines, windows that were incomplete for long, money; and rules that are off."""
    beside = {*(one.rule for one in GPU_KINDS.values()), ENGINE_LOST, JUDGING_INCOMPLETE.name, *spending.RULES}
    names = [*sorted(beside), "slo_ttft_gold", "ttft_moving_average"]
    lines = [f"  - {{labels: {{rule: {name}}}, every: day 02:00-04:00, reason: x}}\n" for name in names]

    assert beside == set(OF_NO_RULE)
    assert [one.labels["rule"] for one in read(CLASSED + "".join(lines)).silences] == names


def test_service_classes_make_a_burn_rate_for_each_objective() -> None:
    """One rule per class and objective, of its requests that took longer; the class brings the share."""
    found = read(
        "include: defaults\nslo_classes:\n"
        "  gold-eu: {ttft: 800ms, tpot: 60ms, share: 99%}\n"
        "  batch: {e2e: 5m, share: 95%}"
    )
    made = {rule.name: rule for rule in found.rules if rule.value.function is Function.ABOVE}

    assert found.slo_classes == (
        SloClass("gold-eu", 0.99, 800_000, 60_000),
        SloClass("batch", 0.95, e2e_us=300_000_000),
    )
    names = ["slo_ttft_gold_eu", "slo_tpot_gold_eu", "slo_e2e_batch"]
    assert [name for name in made if "_slow_" not in name] == names
    assert [name.replace("_slow", "") for name in made if "_slow_" in name] == names
    assert {(name in names, rule.severity) for name, rule in made.items()} == {(True, "critical"), (False, "warning")}
    ttft = made["slo_ttft_gold_eu"]
    assert (ttft.value.field, ttft.value.limit, ttft.value.unit) == ("ttft_us", 800_000.0, "share")
    assert Where("slo_class", ("gold-eu",)) in ttft.value.where
    assert ttft.options["objective"] == 0.99


def pairs_of(share: str, more: str = "") -> dict[str, list[float]]:
    found = read(f"include: defaults\nslo_classes:\n  one: {{ttft: 800ms, share: {share}}}\n{more}")
    made = [rule for rule in found.rules if rule.value.function is Function.ABOVE]
    return {rule.name: [rate for _, _, rate in rule.options["pairs"]] for rule in made}


@pytest.mark.parametrize(
    ("share", "fast", "slow"),
    [
        ("99%", [14.4, 6.0], [6.0, 1.0]),
        ("93%", [12.86, 6.0], [6.0, 1.0]),
        ("80%", [4.5, 4.5], [4.5, 1.0]),
        ("50%", [1.8, 1.8], [1.8, 1.0]),
    ],
)
def test_a_class_with_a_low_share_pages_when_nearly_all_is_too_slow(
    share: str, fast: list[float], slow: list[float]
) -> None:
    """Rates that even all of its requests could not burn are nine tenths of what these would."""
    assert pairs_of(share) == {"slo_ttft_one": fast, "slo_ttft_slow_one": slow}


def test_pairs_of_the_kind_and_of_the_file_reach_a_class_too() -> None:
    """Those that are written, and those that are not."""
    rule = "kind: burn_rate, slo: ttft, by: [model, slo_class]"
    own = f"rules: [{{name: mine, {rule}}}, {{name: own, {rule}, options: {{pairs: [[2h, 10m, 9]]}}}}]"

    found = pairs_of("80%", own)

    assert (found["mine_one"], found["own_one"]) == ([4.5, 4.5, 1.0], [4.5])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{share: 99%}", "needs an objective"),
        ("{ttft: 1s}", "share: is missing"),
        ("{ttft: 1s, share: 99}", "share: '99' must be at least 50% and below 100%"),
        ("{ttft: 0s, share: 99%}", "must be a time with a unit above 0"),
        ("{ttft: 2h, share: 99%}", "must be a time with a unit above 0"),
        ("{ttf: 1s, share: 99%}", "ttf: unknown key; did you mean ttft?"),
    ],
)
def test_service_classes_are_checked(entry: str, said: str) -> None:
    """Objectives have units, shares lie between a half and one."""
    found = problems(f"rules: []\nslo_classes:\n  gold: {entry}")

    assert len(found) == 1
    assert found[0].startswith("my.yaml:3: ")
    assert said in found[0]


def test_a_rule_for_classes_is_checked_without_any() -> None:
    """Its mistakes are found before the first class is written."""
    found = problems("rules: [{name: one, kind: burn_rate, slo: ttft, by: [modle]}]")

    assert found == ["my.yaml:1: rules.one.by: dimension 'modle' is not known; did you mean model?"]


def test_gpu_events_are_judged_by_the_first_entry_that_covers() -> None:
    """Kind, code and severity of the event; what stands in a user's file comes before the shipped ones."""
    found = read(
        "include: defaults\ngpu_events:\n"
        "  - {kind: xid, code: 31, severity: info, advice: known bug, ended_by: gpu_found, lasts: 5m}"
    )
    mine = GpuEvent(("xid",), (31,), (), "info", "known bug", ("gpu_found",), 300_000)

    assert found.gpu_event("xid", 31, "warning") == mine
    assert [
        event.severity if (event := found.gpu_event(*given_)) else "uncovered"
        for given_ in (
            ("xid", 79, "critical"),
            ("xid", 13, "warning"),
            ("xid", 43, "info"),
            ("xid", None, None),
            ("gpu_lost", None, "critical"),
            ("ecc", None, "info"),
            ("clocks", None, "critical"),
        )
    ] == ["critical", "warning", None, "uncovered", "critical", None, "critical"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{severity: critical}", "kind: is missing"),
        ("{kind: xit, severity: critical}", "kind: 'xit' is not known; did you mean xid?"),
        ("{kind: xid}", "severity: is missing"),
        ("{kind: xid, severity: bad}", "severity: 'bad' is not known"),
        ("{kind: xid, code: -1, severity: info}", "code: '-1' must be a whole number"),
        ("{kind: xid, severity: info, lasts: 1s}", "lasts: '1s' must be"),
        ("{kind: xid, severity: info, codes: 1}", "codes: unknown key; did you mean code?"),
        ("{kind: xid, severity: info, told: info}", "told: unknown key; its name is reported now"),
    ],
)
def test_gpu_events_are_checked(entry: str, said: str) -> None:
    """Closed sets are closed."""
    found = problems(f"rules: []\ngpu_events:\n  - {entry}")

    assert len(found) == 1
    assert found[0].startswith("my.yaml:3: ")
    assert said in found[0]


def test_text_of_a_file_in_an_error_is_cut_and_cannot_command_a_terminal() -> None:
    """Control characters are shown, long words end early."""
    found = problems('rules: [{name: one, kind: "\\e[31m' + "x" * 500 + '", metric: count(), by: []}]')

    assert all(line.isprintable() and len(line) < 300 for line in found), found


def test_merging_needs_no_base() -> None:
    """Rules of their own stay as they are, in front of those that are not shipped."""
    mine = parse(b"rules: [{name: x}, 5]", "a", "rules")
    base = parse(b"rules: [{name: y}]", "b", "rules")

    assert merged(mine, base) == {"rules": [{"name": "y"}, {"name": "x"}, "5"]}
    assert merged(parse(b"rules: ~", "a", "rules"), base) == base


def tried(data: bytes) -> None:
    """Whatever the bytes, a set or the one error."""
    try:
        found = [rule.name for rule in parse_set(data, "any.yaml").rules] or ["no rule"]
    except FileError as error:
        found = [*error.problems, *str(error).splitlines()]
    assert all(found)
    assert found


@given(st.binary(max_size=200))
def test_any_bytes_are_rules_or_the_one_error(data: bytes) -> None:
    """Nothing else is ever raised."""
    tried(data)


WORDS = st.sampled_from(
    [
        *(
            "",
            "null",
            "~",
            "-1",
            "nan",
            ".inf",
            "1e400",
            "85C",
            "90%",
            "5m",
            "3 of 5",
            "true",
            "{host}",
            "{",
            "x" * 2_000,
        ),
        *("p95(ttft_us)", "share(status in ok)", "share(ttft_us > 1s)", "rate()", "count()", "ratio(a,b)", "mean()"),
        *("host", "model", "xid", "defaults", "gpu_hot", "2026-12-01T00:00:00Z", "9999-12-31T23:59:59-23:00", "²", "٣"),
        *KINDS,
    ]
) | st.text(max_size=20)
KEYS = st.sampled_from(
    sorted(
        {*RULE_KEYS, *FILE_KEYS, "above", "below", "leave", "labels", "until", "share", "code", "not", "pairs", "load"}
    )
)
VALUES = st.recursive(
    WORDS | st.none() | st.booleans() | st.floats() | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=20,
)
RULES = st.fixed_dictionaries(
    {"name": WORDS, "kind": st.sampled_from(sorted(KINDS)), "metric": WORDS, "by": VALUES},
    optional={key: VALUES for key in RULE_KEYS if key not in ("name", "kind", "metric", "by")},
)
OPTIONED = st.sampled_from(sorted(KINDS)).flatmap(
    lambda kind: st.fixed_dictionaries(
        {
            "name": st.just("one"),
            "kind": st.just(kind),
            "metric": st.sampled_from(["p50(ttft_us)", "mean(temperature_c)", "share(status in ok)", "rate()"]),
            "topic": st.none() | st.just("llm.requests"),
            "by": st.just(["model", "model_version"]),
            "measures": st.dictionaries(st.sampled_from(["load", "waiting", "limit", "value"]), WORDS, max_size=2),
            "options": st.dictionaries(st.sampled_from([one.name for one in KINDS[kind].options]), VALUES, max_size=4),
            "while": st.dictionaries(st.sampled_from(["load", "value"]), VALUES, max_size=2),
        }
    )
)
FILES = st.fixed_dictionaries(
    {},
    optional={
        "rules": st.lists(RULES | OPTIONED, max_size=3) | VALUES,
        "disable": VALUES,
        "silences": st.lists(
            st.dictionaries(st.sampled_from(["labels", "from", "until", "every", "zone", "reason"]), VALUES), max_size=2
        ),
        "slo_classes": st.dictionaries(WORDS, VALUES | st.dictionaries(st.sampled_from(["ttft", "share"]), WORDS)),
        "gpu_events": st.lists(
            st.dictionaries(st.sampled_from(["kind", "code", "reported", "severity", "advice", "lasts"]), VALUES),
            max_size=2,
        ),
    },
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(FILES)
def test_any_mapping_is_rules_or_the_one_error(value: object) -> None:
    """Values of every shape under every key."""
    tried(yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "replace"))


LINES = shipped().decode().splitlines()


@settings(max_examples=25)
@given(st.integers(0, len(LINES) - 1), WORDS, st.booleans())
def test_the_shipped_rules_with_any_line_spoilt_are_rules_or_the_one_error(line: int, word: str, cut: bool) -> None:
    """One line replaced, or cut behind its key."""
    changed = [*LINES]
    changed[line] = f"{changed[line].partition(':')[0]}: {word}" if cut else word
    tried("\n".join(changed[max(0, line - 40) if line % 2 else 0 :]).encode("utf-8", "replace"))
