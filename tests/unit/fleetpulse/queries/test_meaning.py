"""Plain words as a question with names, metrics and a range.

Covers fleetpulse.queries.names_in_words, fleetpulse.queries.metric_words, fleetpulse.queries.range_words.
"""

from __future__ import annotations

import pytest

from fleetpulse.queries.matching import is_ours
from fleetpulse.queries.meaning import meant, of_number, parts
from fleetpulse.queries.metric_words import label, measured
from fleetpulse.queries.names_in_words import listed, named, split
from fleetpulse.queries.questions import numbered
from fleetpulse.queries.range_words import NamedRange, range_of
from schemas.errors import ConfigError

NAMES = {
    "model": ["llama-3.1-8b-instruct", "llama-3.3-70b-instruct", "qwen2.5-coder-7b"],
    "tenant": ["acme", "Globex", "batch", "acme-labs"],
    "host": ["gpu-004", "gpu-005"],
    "engine_id": ["gpu-004/1", "gpu-004/2"],
    "gpu_model": ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"],
    "model_version": ["llama@2026-10"],
}
ROWS = [{"kind": kind, "name": name} for kind, names in NAMES.items() for name in names]
SPIKE, TOKENS = (numbered()[number].given for number in (1, 33))


@pytest.mark.parametrize(
    ("words", "values", "several"),
    [
        ("why is acme slow?", {"tenant": "acme"}, {}),
        ("GLOBEX's cost", {"tenant": "Globex"}, {}),
        ("tokens of llama-70b", {"model": "llama-3.3-70b-instruct"}, {}),
        ("tokens of llama 70b", {"model": "llama-3.3-70b-instruct"}, {}),
        ("tokens of llama 3.3", {"model": "llama-3.3-70b-instruct"}, {}),
        ("tokens of qwen", {"model": "qwen2.5-coder-7b"}, {}),
        ("tokens of llama", {}, {"model": ("llama-3.1-8b-instruct", "llama-3.3-70b-instruct")}),
        ("p99 of qwen for acme", {"model": "qwen2.5-coder-7b", "tenant": "acme"}, {}),
        ("load of gpu-004", {"host": "gpu-004"}, {}),
        ("load of gpu-004/1", {"engine_id": "gpu-004/1"}, {}),
        ("power of an h100", {"gpu_model": "NVIDIA H100 80GB HBM3"}, {}),
        ("errors in batch", {}, {}),
        ("errors of tenant batch", {"tenant": "batch"}, {}),
        ("version llama requests", {"model_version": "llama@2026-10"}, {}),
        ("acme and Globex", {}, {"tenant": ("acme", "Globex")}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_are_found_in_words(words: str, values: dict[str, str], several: dict[str, tuple[str, ...]]) -> None:
    """Whatever their case, by their beginning or by their parts; of several nobody guesses one."""
    found = named(split(words), NAMES, is_ours)

    assert (found.values, found.several, found.unknown) == (values, several, ())


@pytest.mark.parametrize(
    ("words", "number", "names", "given"),
    [
        ("tokens of llama-70b today against yesterday", 33, {"model": "llama-3.3-70b-instruct"}, TOKENS),
        ("tenant behind the p95 tpot spike of qwen", 1, {"model": "qwen2.5-coder-7b"},
         {"model": "", "bins": "tpot_us_bins", "quantile": "0.95"}),
        ("tenant behind a p99 spike", 1, {}, SPIKE),
        ("why is acme slow", 2, {"tenant": "acme"}, {"metric": "ttft_p99_us"}),
        ("slowest requests of acme on gpu-004", 3, {"tenant": "acme", "host": "gpu-004"}, {}),
        ("cost of acme", 25, {"tenant": "acme"}, {"dimension": "tenant"}),
        ("requests and errors today against yesterday", 13, {}, {"metric": "failed"}),
        ("requests today", 13, {}, {"metric": "requests"}),
        ("p99 today vs yesterday", 13, {}, {"metric": "ttft_p99_us"}),
        ("p99 vs yesterday by tenant", 13, {}, {"metric": "ttft_p99_us"}),
        ("p99 of e2e today vs yesterday", 13, {}, {"metric": "e2e_p99_us"}),
        ("tokens of qwen today", 33, {"model": "qwen2.5-coder-7b"}, TOKENS),
        ("cost of acme today", 25, {"tenant": "acme"}, {"dimension": "tenant"}),
        ("errors today", 8, {}, {}),
        ("what do H100 GPUs cost", 28, {"gpu_model": "NVIDIA H100 80GB HBM3"}, {}),
        ("h100 cost", 28, {"gpu_model": "NVIDIA H100 80GB HBM3"}, {}),
        ("acme", 34, {"tenant": "acme"}, {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_words_mean_a_question_with_its_names_and_metric(
    words: str, number: int, names: dict[str, str], given: dict[str, str]
) -> None:
    """A question that can't be held to a name of the words is not meant."""
    found = meant(words, ROWS)

    assert (found.number, found.names, found.given) == (number, names, given)


@pytest.mark.parametrize(
    ("words", "number", "last"),
    [
        ("requests last 2 hours", 12, "2h"),
        ("how many requests this week", 12, "week"),
        ("number of requests this afternoon", 12, "afternoon"),
        ("total requests", 12, ""),
        ("requests of qwen last 24 hours", 12, "24h"),
        ("requests of acme last 24 hours", 34, "24h"),
        ("tokens this month", 12, "month"),
        ("how many tokens in the last hour", 12, "1h"),
        ("tokens per model", 12, ""),
        ("requests and tokens", 12, ""),
        ("requests yesterday", 13, "yesterday"),
        ("tokens yesterday", 33, "yesterday"),
        ("latency last hour", 4, "1h"),
        ("GPUs", 14, ""),
    ],
)
def test_a_bare_word_asks_for_the_thing_itself(words: str, number: int, last: str) -> None:
    """How many requests and tokens there were; no other question that has the word in it."""
    found = meant(words, ROWS)

    assert (found.number, found.last, found.unused) == (number, last, ())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("weather tomorrow", "no question matches well; fleetpulse ask lists all"),
        ("price of bitcoin", "no question matches well: nearest are 23 "),
        ("tokens of llama today", "may mean model llama-3.1-8b-instruct or llama-3.3-70b-instruct: say which"),
        ("p99 latency of model zebra", "no model, tenant, host, engine or GPU is called zebra"),
        ("bill for tenant acme invoice dollars", "is not kept by tenant"),
        ("total bill spent january", "a time that is not understood (january)"),
        ("total bill in May", "a time that is not understood (May)"),
        ("energy by region this year", "a time that is not understood (year)"),
        ("what did idle gpus cost this quarter", "a time that is not understood (quarter)"),
        ("what was the total bill spent monday", "a time that is not understood (monday)"),
        ("slowest requests over 30s", "is called 30s"),
        ("tokens this month vs last month", "a time that is not understood (this month)"),
        ("requests since the deployment", "a time that is not understood (since the deployment)"),
        ("who explains the change of queueing", "asks for a change of time in the queue"),
        ("queue time today vs yesterday", "asks for a change of time in the queue"),
        ("median today vs yesterday", "asks for a change of median; that is told of p99 of TTFT, TPOT and E2E"),
        ("requests slower than p95 today vs yesterday", "asks for a change of p95"),
    ],
)
def test_what_is_not_understood_is_said(words: str, says: str) -> None:
    """Never is another question answered, and no name left out."""
    with pytest.raises(ConfigError, match="WORDS") as raised:
        meant(words, ROWS)

    assert says in str(raised.value)


def test_a_kind_that_is_given_beside_the_words_is_no_longer_open() -> None:
    """``-p model=NAME`` chooses among several."""
    assert meant("tokens of llama today", ROWS, ["model"]).number == 33


def test_only_words_that_may_be_names_are_looked_up() -> None:
    """Their parts too, since a name may be written otherwise."""
    assert parts("monthly cost of idle GPUs") == []
    assert parts("Why is ACME slow on gpu-004?") == ["acme", "gpu-004", "gpu"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("errors in the last 10 minutes", "10m"),
        ("cost last month", "30d"),
        ("cost of the past 2 weeks", "14d"),
        ("errors last 15m", "15m"),
        ("cost yesterday", "yesterday"),
        ("requests today", "today"),
        ("more tokens than yesterday", ""),
        ("tokens today against yesterday", ""),
        ("slowest requests", ""),
        ("who was slow this afternoon", "afternoon"),
        ("sometime in the morning", "morning"),
        ("what broke last night", "night"),
        ("tonight", "evening"),
        ("spike at 9:05", "09:05"),
        ("spike around 15:38", "15:38"),
        ("spike at 25:10", ""),
        ("spike yesterday at 15:38", "yesterday 15:38"),
        ("alerts yesterday afternoon", "yesterday afternoon"),
        ("what broke yesterday night", "night"),
        ("what was the bill this month", "month"),
        ("bill month to date", "month"),
        ("what did idle GPUs cost this week", "week"),
        ("bill of the week so far", "week"),
        ("monthly bill", "30d"),
        ("what do GPUs cost a month", "30d"),
        ("errors over 15m", "15m"),
        ("errors in 30s", "30s"),
        ("slowest requests over 30s", ""),
        ("requests since yesterday", "since yesterday"),
        ("alerts since yesterday afternoon", "since yesterday afternoon"),
        ("spike since yesterday 15:38", "since yesterday 15:38"),
        ("spike since 9:05", "since 09:05"),
        ("cost since last night", "since night"),
        ("requests since today", "today"),
        ("cost since this week", "week"),
        ("cost since last month", "30d"),
        ("since when is there data", ""),
        ("requests since the deployment today", "today"),
    ],
)
def test_ranges_are_found_in_words(words: str, expected: str) -> None:
    """A day alone is a range, two days are compared."""
    assert range_of(words)[0] == expected


@pytest.mark.parametrize(
    "words",
    [
        "which tenant caused the time to first token spike this afternoon",
        "a model got slow for a few minutes this afternoon, who was it?",
        "which tenant made llama-3.3 slow at 15:38",
    ],
)
def test_a_part_of_the_day_is_no_word_of_a_question(words: str) -> None:
    """Nor are verbs and small words names."""
    found = meant(words, ROWS)

    assert numbered()[found.number].query == "who_slowed_model"
    assert found.last in ("afternoon", "15:38")


def test_days_of_a_comparison_are_no_range_of_it() -> None:
    """Another question is asked of that day."""
    assert meant("tokens of qwen today against yesterday", ROWS).last == ""
    assert meant("slowest requests today", ROWS).last == "today"
    assert meant("slowest requests yesterday", ROWS).last == "yesterday"
    assert meant("slowest requests of acme in the last 2 hours", ROWS).last == "2h"


@pytest.mark.parametrize(
    ("words", "number", "given"),
    [
        ("how many tokens did each model generate yesterday", 33, TOKENS),
        ("how many requests yesterday", 13, {"metric": "requests"}),
    ],
)
def test_a_question_of_today_is_asked_of_yesterday_where_the_words_say_so(
    words: str, number: int, given: dict[str, str]
) -> None:
    """Of no other day."""
    found = meant(words, ROWS)

    assert (found.number, found.given, found.last) == (number, given, "yesterday")


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ("requests since yesterday", "who_changed"),
        ("tokens since yesterday", "tokens_changed"),
        ("failures since yesterday", "who_changed"),
        ("alerts since yesterday", "alert_history"),
        ("bill since yesterday", "cost_bill"),
    ],
)
def test_since_is_a_range_and_no_word_of_a_question(words: str, query: str) -> None:
    """From then until now."""
    found = meant(words, ROWS)

    assert (numbered()[found.number].query, found.last) == (query, "since yesterday")


@pytest.mark.parametrize(
    ("name", "expected", "of_calendar"),
    [
        ("10m", NamedRange("10m"), False),
        ("yesterday", NamedRange("yesterday"), True),
        ("15:38", NamedRange("15:38"), False),
        ("yesterday 15:38", NamedRange("15:38", yesterday=True), False),
        ("since 15:38", NamedRange("15:38", since=True), True),
        ("since yesterday", NamedRange("yesterday", since=True), True),
        ("since yesterday afternoon", NamedRange("afternoon", since=True, yesterday=True), True),
        ("week", NamedRange("week"), True),
        ("", NamedRange(""), False),
    ],
)
def test_the_name_of_a_range_is_taken_apart_and_put_together(
    name: str, expected: NamedRange, of_calendar: bool
) -> None:
    """Once: who reads it asks for what it holds."""
    found = NamedRange.of(name)

    assert (found, found.is_of_calendar, found.name) == (expected, of_calendar, name)


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        ("KV cache usage of gpu-004/1", ("usage",)),
        ("tokens of qwen today against yesterday", ()),
        ("tenant behind the p95 tpot spike of qwen", ()),
        ("what do idle GPUs cost a month", ()),
        ("bill since yesterday", ()),
    ],
)
def test_words_that_a_question_says_nothing_of_are_known(words: str, unused: tuple[str, ...]) -> None:
    """Names, ranges and metrics are not among them."""
    assert meant(words, ROWS).unused == unused


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("p99 spike", "p99 of TTFT"),
        ("median end to end", "p50 of E2E latency"),
        ("p95 of the queue", "p95 of time in the queue"),
        ("p90 time to first token", "p90 of TTFT"),
    ],
)
def test_a_latency_is_what_the_words_say(words: str, expected: str) -> None:
    """And its percentile."""
    assert label(measured(words, SPIKE, "who_slowed_model")) == expected


@pytest.mark.parametrize(
    ("words", "metric", "expected", "says"),
    [
        ("prompt tokens", "requests", "input_tokens", "prompt tokens"),
        ("tokens in eu", "requests", "output_tokens", "generated tokens"),
        ("cost of prompt tokens", "cost_nusd", "cost_nusd", "cost"),
        ("generated tokens", "requests", "output_tokens", "generated tokens"),
        ("failures", "requests", "failed", "failed requests"),
        ("spike", "ttft_p99_us", "ttft_p99_us", "p99 of TTFT"),
        ("errors behind the p99", "ttft_p99_us", "ttft_p99_us", "p99 of TTFT"),
        ("tpot spike", "ttft_p99_us", "tpot_p99_us", "p99 of TPOT"),
        ("who got more expensive", "cost_nusd", "cost_nusd", "cost"),
    ],
)
def test_a_change_is_of_the_metric_that_the_words_say(words: str, metric: str, expected: str, says: str) -> None:
    """Else of the one that the question has."""
    found = measured(words, {"metric": metric}, "who_changed")

    assert (found["metric"], label(found)) == (expected, says)


@pytest.mark.parametrize(
    ("bins", "expected"), [("itl_bins", "p99 of ITL"), ("prefill_us_bins", "p99 of prefill"), ("bins", "p99 of bins")]
)
def test_a_latency_that_no_words_say_has_a_name(bins: str, expected: str) -> None:
    """A parameter may be of any column."""
    assert label({"bins": bins, "quantile": "0.99"}) == expected


def test_other_questions_have_no_choice_of_metric() -> None:
    """Nothing is said of one."""
    assert label(measured("p99 of tokens", {"dimension": "tenant"}, "cost_by")) == ""
    assert of_number(1).given == SPIKE
    assert listed("abcdefg") == "a, b, c, d, e and 2 more"


@pytest.mark.parametrize("day", ["yesterday", "yesterday afternoon", "last night", "today", "this week"])
def test_alerts_of_a_day_are_all_that_it_had(day: str) -> None:
    """Those that were open at its end are asked for by that word."""
    assert numbered()[meant(f"alerts {day}", ROWS).number].query == "alert_history"
    assert numbered()[meant(f"open alerts {day}", ROWS).number].query == "open_alerts"
    assert numbered()[meant("alerts", ROWS).number].query == "open_alerts"


@pytest.mark.parametrize("moment", ["at 15:38", "yesterday around 15:38"])
def test_alerts_at_a_time_are_those_open_then(moment: str) -> None:
    """One that was open for hours has no transition in the minutes around it."""
    assert numbered()[meant(f"alerts {moment}", ROWS).number].query == "open_alerts"
