"""Series in files: reading them, judging them, and writing scores as the benchmark wants them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from fleetpulse.backtest.files import Preset, backtest_csv, backtest_nab, preset, series_of, spans_of, total
from fleetpulse.backtest.labelled import Found, Run, compare
from fleetpulse.backtest.one_series import judged, rule_of, score
from fleetpulse.backtest.series_file import Point, interval_ms, read_series
from schemas.errors import ConfigError

STEP_MS = 300_000
NAN = float("nan")


def wave(count: int, jump: range = range(0)) -> list[Point]:
    """Five-minute values around 100 with a little ripple, doubled in ``jump``."""
    values = ((100.0 + math.sin(i * 1.7)) * (2.0 if i in jump else 1.0) for i in range(count))
    return [Point(i * STEP_MS, value, str(i * STEP_MS // 1_000)) for i, value in enumerate(values)]


def written(path: Path, points: list[Point]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("timestamp,value\n" + "".join(f"{point.text},{point.value!r}\n" for point in points))
    return path


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01 00:00:10", 10_000),
        ("1970-01-01T00:00:10Z", 10_000),
        ("1970-01-01T01:00:10+01:00", 10_000),
        ("10", 10_000),
        ("10.5", 10_500),
        ("1790000000000", 1_790_000_000_000),
    ],
)
def test_times_are_read_as_people_write_them(tmp_path: Path, text: str, at_ms: int) -> None:
    """ISO with and without zone, seconds, milliseconds; with a header or without."""
    for head in ("", "timestamp,value\n"):
        path = tmp_path / "a.csv"
        path.write_text(f"{head}{text},1.5,more\n")

        assert list(read_series(path)) == [Point(at_ms, 1.5, text)]


def test_an_empty_value_is_unknown(tmp_path: Path) -> None:
    """Not zero; empty lines are none."""
    path = tmp_path / "a.csv"
    path.write_text("1,\n\n2,nan\n3,4\n")

    assert [str(point.value) for point in read_series(path)] == ["nan", "nan", "4.0"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2\nx,3\n", "a.csv:2 = 'x,3': must be timestamp,value"),
        ("1,2\n2,y\n", "a.csv:2 = '2,y': must be timestamp,value"),
        ("1,2\n2\n", "a.csv:2 = '2': must be timestamp,value"),
        ("1e300,2\n", "a.csv:1"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    """A header may be unreadable, nothing else."""
    path = tmp_path / "a.csv"
    path.write_text("timestamp,value\n" + text if said == "a.csv:1" else text)

    with pytest.raises(ConfigError) as raised:
        list(read_series(path))

    assert said.removesuffix(":1") in str(raised.value)


def test_a_file_that_is_not_there_or_has_no_interval_is_refused(tmp_path: Path) -> None:
    """One moment has no interval to the next."""
    path = tmp_path / "a.csv"
    path.write_text("1,2\n1,3\n")

    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_series(tmp_path / "no.csv"))
    with pytest.raises(ConfigError, match="at least two moments"):
        interval_ms(path)


def test_the_interval_is_the_usual_gap(tmp_path: Path) -> None:
    """A gap in the data does not count for more than one."""
    path = written(tmp_path / "a.csv", [*wave(5), *[p._replace(at_ms=p.at_ms, text="90000") for p in wave(1)]])

    assert interval_ms(path) == STEP_MS


@pytest.mark.parametrize("kind", ["deviation", "moving_average"])
def test_a_jump_fires_and_a_ripple_does_not(kind: str) -> None:
    """From the first doubled value; over a while after the last; before it nothing."""
    points = wave(400, jump=range(300, 310))

    firing = [one.point.at_ms // STEP_MS for one in judged(rule_of(kind, STEP_MS, {}), points) if one.firing]

    assert firing[0] == 300
    assert set(range(300, 310)) <= set(firing) <= set(range(300, 314))


def test_a_score_is_half_at_the_edge() -> None:
    """Zero at the baseline, towards one beyond, without two that differ ever being the same; unknown is zero."""
    assert [score(ratio) for ratio in (0.0, 1.0, 3.0, NAN)] == [0.0, 0.5, 0.75, 0.0]
    assert len({score(10.0**power) for power in range(15)}) == 15


def test_drops_score_as_rises_do() -> None:
    """On the scale that is judged: half as much is as far as twice as much."""
    base = wave(400)
    points = [point._replace(value={320: 200.0, 340: 50.0}.get(number, 100.0)) for number, point in enumerate(base)]

    scores = [one.score for one in judged(rule_of("deviation", STEP_MS, {"direction": "both"}), points)]

    assert scores[320] == pytest.approx(scores[340], rel=0.1)
    assert scores[320] > 0.5


def test_time_may_step_back(tmp_path: Path) -> None:
    """As where clocks were put back an hour; the points are judged in their order, and counted."""
    points = wave(400)
    points[300:] = [point._replace(at_ms=point.at_ms - 12 * STEP_MS) for point in points[300:]]
    path = written(tmp_path / "a.csv", [point._replace(text=str(point.at_ms // 1_000)) for point in points])

    result = backtest_csv(path, Preset("deviation")).as_dict()

    assert (result["points"], result["steps_back"], result["alerts"]) == (400, 1, [])


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (("novelty", "both", "auto"), {"direction": "both", "scale": "auto"}),
        (("novelty", "above", "root"), {"direction": "above", "scale": "root"}),
        (("deviation", "below", "auto"), {"direction": "below", "enter_sigmas": 6.0}),
        (("deviation", "both", "linear"), {"direction": "both", "enter_sigmas": 6.0, "log": False}),
        (("moving_average", "both", None), {"direction": "both", "percent": 15.0}),
        (("novelty", "both", None), {"direction": "both", "scale": "auto"}),
    ],
)
def test_a_preset_takes_what_its_detector_has(given: tuple[str, str, str | None], options: dict[str, object]) -> None:
    """And what differs from its defaults alone."""
    detector, direction, scale = given

    assert preset(detector, None, None, None, 1, 1, direction, scale) == Preset(detector, options)


@pytest.mark.parametrize(
    ("sigmas", "percent", "kind"), [(None, None, "novelty"), (4.0, None, "deviation"), (None, 20.0, "moving_average")]
)
def test_an_option_says_whose_it_is(sigmas: float | None, percent: float | None, kind: str) -> None:
    """Commands that were written before there was another detector mean what they meant."""
    assert preset(None, sigmas, percent, None, 1, 1, "both", None).kind == kind


@pytest.mark.parametrize(
    ("detector", "given", "said"),
    [
        ("novelty", (4.0, None, None), "--sigmas = 4.0: is not of --detector novelty, but of deviation"),
        ("novelty", (None, 20.0, None), "but of moving_average"),
        ("moving_average", (None, None, "log"), "but of novelty, deviation"),
    ],
)
def test_an_option_of_another_detector_is_refused(
    detector: str, given: tuple[float | None, float | None, str | None], said: str
) -> None:
    """It would be without effect."""
    sigmas, percent, scale = given
    with pytest.raises(ConfigError, match=said):
        preset(detector, sigmas, percent, None, 1, 1, "both", scale)


@pytest.mark.parametrize(
    ("direction", "scale", "said"),
    [("up", "auto", "--direction"), ("both", "root", "--scale"), ("both", "x", "--scale")],
)
def test_a_preset_that_there_is_not_is_refused(direction: str, scale: str, said: str) -> None:
    """By the option that is wrong."""
    with pytest.raises(ConfigError, match=said):
        preset("deviation", 6.0, None, None, 1, 1, direction, scale)


def test_alerts_are_compared_with_what_is_labelled() -> None:
    """Touching counts; lateness is that of the first alert in a span, zero for one that was open already."""
    runs = [Run(at, "", at + 5, 1.0, 1.0) for at in (0, 95, 120, 400)]

    assert compare(runs, ((100, 200), (300, 350))) == Found(4, 2, 2, 1, (0,))
    assert compare(runs[2:], ((100, 200),)) == Found(2, 1, 1, 1, (20,))
    assert compare([], ()).as_dict()["precision"] is None


def test_one_file_with_labels(tmp_path: Path) -> None:
    """One jump, one alert, found at once."""
    path = written(tmp_path / "a.csv", wave(400, jump=range(300, 310)))
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps([["1970-01-02 01:00:00", "1970-01-02 02:00:00"]]))

    result = backtest_csv(path, Preset("deviation"), labels).as_dict()

    assert (result["points"], result["precision"], result["recall"], result["late_p95_s"]) == (400, 1.0, 1.0, 0.0)
    assert [alert["since"] for alert in result["alerts"]] == ["90000"]
    with pytest.raises(ConfigError, match="must hold"):
        spans_of(path)


def test_the_layout_of_the_benchmark(tmp_path: Path) -> None:
    """Scores stand at <detector>/<category>/<detector>_<file>.csv, row by row as in the data, with their labels."""
    written(tmp_path / "data" / "made" / "one.csv", wave(400, jump=range(300, 310)))
    written(tmp_path / "data" / "made" / "two.csv", wave(50))
    windows = {"made/one.csv": [["1970-01-02 01:00:00.000000", "1970-01-02 01:10:00.000000"]], "made/two.csv": []}
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "combined_windows.json").write_text(json.dumps(windows))
    reported: list[tuple[int, int]] = []

    results = backtest_nab(tmp_path, Preset("deviation"), "fp", tmp_path / "out", lambda *done: reported.append(done))

    lines = (tmp_path / "out" / "fp" / "made" / "fp_one.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines[1:]]
    assert lines[0] == "timestamp,value,anomaly_score,label"
    assert len(rows) == 400
    assert [index for index, row in enumerate(rows) if row[3] == "1"] == [300, 301, 302]
    assert float(rows[300][2]) > 0.75 > 0.5 > max(float(row[2]) for row in rows[:300])
    assert (tmp_path / "out" / "fp" / "made" / "fp_two.csv").exists()
    assert reported == [(0, 2), (1, 2)]
    found = total(results)
    assert found is not None
    assert (found.runs, found.right, found.spans, found.found) == (1, 1, 1, 1)


def test_a_directory_without_series_or_with_bad_labels_is_refused(tmp_path: Path) -> None:
    """The text says what must be there."""
    with pytest.raises(ConfigError, match="holds no <category>"):
        series_of(tmp_path)
    written(tmp_path / "made" / "one.csv", wave(3))
    assert series_of(tmp_path)[0].labelled is None
    (tmp_path / "combined_windows.json").write_text('{"made/one.csv": [["x", "y"]]}')
    with pytest.raises(ConfigError, match="must map files"):
        series_of(tmp_path)
