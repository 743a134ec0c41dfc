"""Drawings of one series: sound, complete, and made of nothing from elsewhere."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from fleetpulse.backtest.explain import ALERTS_DRAWN, drawing, moment, page
from fleetpulse.backtest.judging import Judged
from fleetpulse.backtest.labelled import runs_of
from fleetpulse.backtest.series_file import Points, points_of

STEP_MS, COUNT = 300_000, 3_000
NAME = 'web/<b>&"latency"'
SVG = "{http://www.w3.org/2000/svg}"


def points() -> Points:
    at_ms = 1_700_000_000_000 + np.arange(COUNT) * STEP_MS
    values = 100 + np.sin(np.arange(COUNT) / 20)
    return points_of("made", at_ms, values, [str(one) for one in at_ms])


def judged(*fires: slice) -> Judged:
    firing = np.zeros(COUNT, np.bool_)
    for one in fires:
        firing[one] = True
    unknown = np.where(np.arange(COUNT) < 500, np.nan, 0.0)
    return Judged(100 + unknown, 97 + unknown, 103 + unknown, np.where(firing, 0.7, 0.2), firing)


def drawn(
    series: Points, said: Judged, labelled: tuple[tuple[int, int], ...] = (), rows: slice = slice(None)
) -> ET.Element:
    return ET.fromstring(drawing(series, said, runs_of(series, said), labelled, rows, NAME))


def places(one: ET.Element, name: str) -> list[tuple[float, float]]:
    """Of the longest path of a class: the key has one of each as well."""
    paths = [path.get("d", "") for path in one.iter(f"{SVG}path") if path.get("class") == name]
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", max(paths, key=len))]


def test_a_drawing_shows_values_limits_expectation_alerts_and_labels() -> None:
    """Inside the picture; what lasted a moment is still wide enough to be seen."""
    series = points()
    span = (int(series.at_ms[998]), int(series.at_ms[1_010]))
    one = drawn(series, judged(slice(1_000, 1_001), slice(2_000, 2_300)), (span,))
    rects = {name: [r for r in one.iter(f"{SVG}rect") if r.get("class") == name] for name in ("a", "s")}

    width, height = (float(text) for text in one.get("viewBox", "").split()[2:])
    for name in ("v", "e"):
        found = places(one, name)
        assert len(found) > 500
        assert all(0 <= x <= width and 0 <= y <= height for x, y in found)
    assert min(x for x, _ in places(one, "v")) < 70
    assert min(x for x, _ in places(one, "e")) > 180
    assert [float(r.get("width", "0")) for r in rects["a"]] == [2.0, pytest.approx(89, abs=2)]
    assert len(rects["s"]) == 1
    assert one.findtext(f"{SVG}title") == NAME


def test_a_peak_between_pixels_is_seen_and_a_gap_stays_open() -> None:
    """However many points share a column of pixels."""
    series = points()
    series.values[1_501] = 500.0
    series.values[2_000:2_100] = np.nan
    one = drawn(series, judged())
    path = max((p.get("d", "") for p in one.iter(f"{SVG}path") if p.get("class") == "v"), key=len)

    heights = [y for _, y in places(one, "v")]
    assert min(heights) < 45
    assert sum(y < 100 for y in heights) == 1
    assert path.count("M") == 2


def test_limits_out_of_reach_do_not_flatten_the_series() -> None:
    """They are cut off at the edge."""
    series, said = points(), judged()
    far = replace(said, high=said.high * 1e9, low=said.low * 0)

    heights = [y for _, y in places(drawn(series, far), "v")]

    assert max(heights) - min(heights) > 150


def test_steps_back_and_a_single_value_are_drawn() -> None:
    """By number where time goes back; a constant has a middle."""
    series = points()
    series.at_ms[1_500:] -= 12 * STEP_MS
    xs = [x for x, _ in places(drawn(series, judged()), "v")]
    assert xs == sorted(xs)

    series.values[:] = 7.0
    assert {y for _, y in places(drawn(series, judged()), "v")} <= set(np.linspace(26, 286, 2_601).round(1).tolist())


def test_a_page_has_a_row_for_every_alert_and_needs_nothing_else() -> None:
    """Drawings around the first ones; whatever a series is called, it is text."""
    fires = [slice(600 + 100 * number, 605 + 100 * number) for number in range(ALERTS_DRAWN + 2)]
    series, said = points(), judged(*fires)

    text = page(NAME, "novelty", series, said, runs_of(series, said), ())

    assert text.count("<svg") == 1 + ALERTS_DRAWN
    assert text.count('<tr><th scope="row">') == ALERTS_DRAWN + 2
    assert "2 more alerts stand in the table alone" in text
    assert "<b>" not in text
    assert "<script" not in text
    assert set(re.findall(r"https?://[^\"]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "The rule never fired." in page(NAME, "novelty", series, judged(), [], ())


def test_a_moment_that_no_calendar_has_is_a_number() -> None:
    """As files hold anything."""
    assert moment(1_700_000_000_000) == "2023-11-14 22:13:20"
    assert moment(10**17) == "100000000000000000 ms"
