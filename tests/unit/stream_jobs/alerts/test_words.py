"""Summaries: sentences with labels and figures as people read them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_jobs.alerts.signals import advice_of, shown, summary_of, unit_of
from stream_jobs.insight.frame import Finding
from stream_jobs.rules.model import Function
from tests.unit.stream_jobs.alerts.cases import rule

FINDING = Finding("r", (), 0, 10_000, True, 0, 1_250_000.0, 900_000.0, None, None, 12, "a new version")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1_250_000.0, "us", "1.25 s"),
        (250_000.0, "us", "250 ms"),
        (12.0, "us", "12 us"),
        (0.0, "us", "0 us"),
        (90_000.0, "ms", "1.5 min"),
        (970_000.0, "ppm", "97 %"),
        (0.052, "share", "5.2 %"),
        (85.0, "C", "85 °C"),
        (1.25, "1/s", "1.25 a second"),
        (700_000.0, "mW", "700 W"),
        (80 * 2.0**30, "bytes", "80 GiB"),
        (1_234_567.0, "tokens", "1,234,567 tokens"),
        (-2_000.0, "us", "-2 ms"),
        (3.14159, "", "3.14"),
        (None, "us", "unknown"),
        (float("nan"), "us", "unknown"),
    ],
)
def test_figures_stand_in_the_units_that_people_read(value: float | None, unit: str, text: str) -> None:
    """Three digits that count."""
    assert shown(value, unit) == text


@pytest.mark.parametrize(
    ("function", "unit", "expected"),
    [
        (Function.SHARE, "", "share"),
        (Function.ABOVE, "us", "share"),
        (Function.RATIO, "", "share"),
        (Function.RATIO, "bytes", "bytes"),
        (Function.MEAN, "C", "C"),
    ],
)
def test_shares_are_shown_in_per_cent(function: Function, unit: str, expected: str) -> None:
    """By what the measure is."""
    assert unit_of(rule("r", "threshold", "llm.requests", (), function=function, unit=unit)) == expected


def test_a_sentence_is_filled_with_what_is_known() -> None:
    """Labels, figures, the note; what is not known says so."""
    told = replace(
        rule("r", "deviation", "t", (), unit="us"), summary="{model} of {host}: {value}, {baseline} ({note})"
    )

    assert summary_of(told, FINDING, {"model": "llama"}) == "llama of unknown: 1.25 s, 900 ms (a new version)"


def test_advice_is_filled_like_the_summary() -> None:
    """It names what to do it to."""
    told = replace(rule("r", "threshold", "t", ()), advice="add engines of {model}")

    assert advice_of(told, FINDING, {"model": "llama"}) == "add engines of llama"


@pytest.mark.parametrize(("hosts", "said"), [(None, "unknown"), (1, "1 host"), (12, "12 hosts")])
def test_says_on_how_many_hosts(hosts: int | None, said: str) -> None:
    """``{hosts}`` is a count with its noun."""
    told = replace(rule("r", "regression", "t", ()), summary="since {model_version} on {hosts}")

    assert summary_of(told, FINDING, {"model_version": "v2"}, hosts) == f"since v2 on {said}"


@pytest.mark.parametrize("summary", ["{", "{}", "{value.x}", "{0}", "{value!z}", "{value[x]}"])
def test_a_sentence_that_cannot_be_filled_stays_as_it_is(summary: str) -> None:
    """A rule's text never stops the judging."""
    assert summary_of(replace(rule("r", "deviation", "t", ()), summary=summary), FINDING, {}) == summary
