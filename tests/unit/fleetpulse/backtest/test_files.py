"""Series in files: reading them, judging them together, and writing scores as the benchmark wants them.

Covers fleetpulse.backtest.judging, fleetpulse.backtest.labelled and fleetpulse.backtest.series_file as well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleetpulse.backtest import files, series_file
from fleetpulse.backtest.files import (
    Kept,
    Preset,
    Series,
    SeriesResult,
    backtest,
    backtest_files,
    preset,
    queried,
    result_path,
    series_of,
    spans_of,
    total,
)
from fleetpulse.backtest.judging import Judged, judged, rule_of, score
from fleetpulse.backtest.labelled import Found, Run, compare, runs_of
from fleetpulse.backtest.series_file import Points, points_of, read_files, read_series
from fleetpulse.sql.database import Answer
from schemas.errors import ConfigError

STEP_MS = 300_000
NAN = float("nan")


def wave(count: int, jump: range = range(0), at_ms: int = 0, step_ms: int = STEP_MS) -> Points:
    """Values around 100 with a little ripple, doubled in ``jump``; every five minutes."""
    values = [(100.0 + math.sin(i * 1.7)) * (2.0 if i in jump else 1.0) for i in range(count)]
    return series([at_ms + i * step_ms for i in range(count)], values)


def series(at_ms: list[int], values: list[float]) -> Points:
    return points_of("made", np.array(at_ms), np.array(values), [str(one / 1_000) for one in at_ms])


def written(path: Path, points: Points) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(points.texts, points.values.tolist(), strict=True)
    path.write_text("timestamp,value\n" + "".join(f"{text},{value!r}\n" for text, value in rows))
    return path


def alone(kind: str, points: Points, **options: Any) -> Judged:
    [(_, found)] = judged(lambda interval_ms: rule_of(kind, interval_ms, options), [points])
    return found


@pytest.fixture(params=["columns", "rows"])
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With pyarrow, and as it is without."""
    if request.param == "rows":
        monkeypatch.setattr(series_file, "arrow", lambda part: None)
    return str(request.param)


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
def test_times_are_read_as_people_write_them(tmp_path: Path, reading: str, text: str, at_ms: int) -> None:
    """ISO with and without zone, seconds, milliseconds; with a header or without."""
    for head in ("", "timestamp,value\n"):
        path = tmp_path / "a.csv"
        later = text.replace(":10", ":20", 1) if ":" in text else text.replace("0", "1", 1)
        path.write_text(f"{head}{text},1.5,more\n{later},2,\n")

        found = read_series(path)

        assert found.at_ms[0] == at_ms
        assert (list(found.texts), found.values.tolist()) == ([text, later], [1.5, 2.0])


def test_what_is_unusual_for_columns_is_read_row_by_row(tmp_path: Path) -> None:
    """Times of several forms in one file, rows of several lengths."""
    path = tmp_path / "a.csv"
    path.write_text("10,1\n1970-01-01T00:00:20Z,2,x\n30000000000000,3\n")

    assert read_series(path).at_ms.tolist() == [10_000, 20_000, 30_000_000_000_000]


def test_an_empty_value_is_unknown(tmp_path: Path, reading: str) -> None:
    """Not zero; empty lines are none."""
    path = tmp_path / "a.csv"
    path.write_text("1,\n\n2,nan\n3,4\n")

    assert [str(value) for value in read_series(path).values] == ["nan", "nan", "4.0"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\n\ntimestamp,value\n1,2\n\n3,4\n", id="below empty lines, as an editor or a shell leaves them"),
        pytest.param("\ufeffTimestamp,host_count,value\n1,7,2\n3,7,4\n", id="behind a byte order mark of spreadsheets"),
        pytest.param("host,value,timestamp\na,2,1\na,4,3\n", id="in any order, between others"),
        pytest.param("time,cpu\n1,2\n3,4\n", id="two columns of other names"),
    ],
)
def test_a_header_says_where_the_columns_stand(tmp_path: Path, reading: str, text: str) -> None:
    """Times, their texts and values."""
    path = tmp_path / "a.csv"
    path.write_text(text)

    found = read_series(path)

    assert (found.at_ms.tolist(), list(found.texts), found.values.tolist()) == ([1_000, 3_000], ["1", "3"], [2.0, 4.0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("\na,b\nc,d\n1,2\n", r"a\.csv:3 = 'c,d'", id="a second one"),
        pytest.param(
            "time,hosts,cpu\n1,7,2\n3,7,4\n",
            r"'time,hosts,cpu': must name a column timestamp and a column value",
            id="three columns of other names",
        ),
    ],
)
def test_a_header_that_does_not_say_it_is_refused(tmp_path: Path, reading: str, text: str, said: str) -> None:
    """Which of three is judged would be a guess."""
    path = tmp_path / "a.csv"
    path.write_text(text)

    with pytest.raises(ConfigError, match=said):
        read_series(path)


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
        read_series(path)

    assert said.removesuffix(":1") in str(raised.value)


def test_a_file_that_is_not_there_or_has_no_interval_is_refused(tmp_path: Path) -> None:
    """One moment has no interval to the next."""
    path = tmp_path / "a.csv"
    path.write_text("1,2\n1,3\n")

    with pytest.raises(ConfigError, match="cannot be read"):
        read_series(tmp_path / "no.csv")
    with pytest.raises(ConfigError, match="at least two moments"):
        read_series(path)


def test_the_interval_is_the_usual_gap() -> None:
    """A gap in the data does not count for more than one."""
    assert series([0, 300_000, 600_000, 90_000_000, 90_300_000], [1.0] * 5).interval_ms == STEP_MS


@pytest.mark.parametrize("kind", ["deviation", "moving_average"])
def test_a_jump_fires_and_a_ripple_does_not(kind: str) -> None:
    """From the first doubled value; over a while after the last; before it nothing."""
    firing = np.flatnonzero(alone(kind, wave(400, jump=range(300, 310))).firing).tolist()

    assert firing[0] == 300
    assert set(range(300, 310)) <= set(firing) <= set(range(300, 314))


def many() -> list[Points]:
    """Of other lengths, begins, steps and phases; with gaps, unknown values, moments twice, and clocks put back."""
    back = wave(400, jump=range(350, 353), at_ms=977_000)
    gap = wave(500, jump=range(200, 201), at_ms=86_400_000)
    back.at_ms[300:] -= 12 * STEP_MS
    gap.at_ms[200:] += 40 * STEP_MS
    gap.values[198:200] = np.nan
    gap.values[202:208] = np.nan
    twice = wave(450, jump=range(400, 410), at_ms=3_000)
    twice.at_ms[::7] += STEP_MS - 1_000
    return [
        wave(400, jump=range(300, 310)),
        wave(50),
        wave(700, jump=range(600, 604), at_ms=1_400_000_000_000),
        wave(420, jump=range(380, 381), step_ms=60_000),
        back,
        gap,
        twice,
        series([0, STEP_MS, 2 * STEP_MS], [NAN, NAN, NAN]),
    ]


@pytest.mark.parametrize(
    ("kind", "at_once"),
    [("novelty", 10_000_000), ("deviation", 10_000_000), ("moving_average", 10_000_000), ("deviation", 900)],
)
def test_a_series_is_judged_as_if_it_were_alone(kind: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever shares its frames; scores, limits and firing are the same, and unknown values have none."""
    monkeypatch.setattr("fleetpulse.backtest.judging.POINTS_MAX", at_once)
    every, reported = many(), []
    options = {"warm_up_s": 36_000} if kind == "novelty" else {}

    together = dict(judged(lambda ms: rule_of(kind, ms, options, m=2, n=3), every, lambda *done: reported.append(done)))

    assert sorted(together) == list(range(len(every)))
    for number, points in enumerate(every):
        [(_, single)] = judged(lambda ms: rule_of(kind, ms, options, m=2, n=3), [points])
        for name in ("baseline", "low", "high", "score", "firing"):
            assert np.array_equal(getattr(together[number], name), getattr(single, name), equal_nan=name != "firing"), (
                name
            )
    assert together[0].firing[301:309].all()
    assert np.isnan(together[5].high[198:200]).all()
    assert np.diff([done for done, _ in reported]).min() >= 0
    assert {whole for _, whole in reported} == {sum(len(one) for one in every)}


def test_silence_does_not_end_what_fires() -> None:
    """Unknown values are as the last known one; a series that is absent while others go on waits as it is."""
    points = wave(400, jump=range(300, 400))
    points.values[305:320] = NAN

    fires = alone("deviation", points).firing

    assert not fires[:300].any()
    assert fires[300:320].all()


def test_a_score_is_half_at_the_edge() -> None:
    """Zero at the baseline, towards one beyond, without two that differ ever being the same; unknown is zero."""
    assert score(np.array([0.0, 1.0, 3.0, NAN, -1.0])).tolist() == [0.0, 0.5, 0.75, 0.0, 0.0]
    assert len(set(score(10.0 ** np.arange(15)).tolist())) == 15


def test_drops_score_as_rises_do() -> None:
    """On the scale that is judged: half as much is as far as twice as much."""
    points = wave(400)
    points.values[:] = 100.0
    points.values[[320, 340]] = 200.0, 50.0

    scores = alone("deviation", points, direction="both").score

    assert scores[320] == pytest.approx(scores[340], rel=0.1)
    assert scores[320] > 0.5


def test_time_may_step_back(tmp_path: Path) -> None:
    """As where clocks were put back an hour; the points are judged in their order, and counted."""
    points = wave(400)
    points.at_ms[300:] -= 12 * STEP_MS

    [result] = backtest([Series("a", points)], Preset("deviation"), Kept(), lambda _done, _all: None)

    assert (result.points, result.steps_back, result.runs) == (400, 1, ())


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


def test_runs_are_read_off_what_fires() -> None:
    """From the first to the last point of each, the one that goes on included."""
    points, marks = wave(6), np.array([True, False, True, True, False, True])
    nothing = np.zeros(6)

    runs = runs_of(points, Judged(nothing + 7, nothing, nothing, nothing, marks))

    assert [(run.since_ms // STEP_MS, run.until_ms // STEP_MS) for run in runs] == [(0, 0), (2, 3), (5, 5)]
    assert (runs[1].since, runs[1].value, runs[1].baseline) == (points.texts[2], points.values[2], 7.0)


def test_one_file_with_labels(tmp_path: Path) -> None:
    """One jump, one alert, found at once; nothing is written."""
    path = written(tmp_path / "a.csv", wave(400, jump=range(300, 310)))
    labels = tmp_path / "labels.json"
    labels.write_text(json.dumps([["1970-01-02 01:00:00", "1970-01-02 02:00:00"]]))

    found = backtest_files(path, None, None, labels, Preset("deviation"), tmp_path / "out")

    [result] = found["series"]
    assert (result["points"], result["precision"], result["recall"], result["late_p95_s"]) == (400, 1.0, 1.0, 0.0)
    assert [alert["since"] for alert in result["alerts"]] == ["90000.0"]
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="must hold"):
        spans_of(path)
    with pytest.raises(ConfigError, match="give --csv or --dir, not both"):
        backtest_files(path, tmp_path, None, None, Preset("deviation"), tmp_path / "out")


def test_one_series_is_drawn(tmp_path: Path) -> None:
    """Beside the scores, not among them; a name that there is not is refused with some that there are."""
    written(tmp_path / "data" / "made" / "one.csv", wave(400, jump=range(300, 310)))
    written(tmp_path / "data" / "made" / "two.csv", wave(50))
    out = tmp_path / "out"

    found = backtest_files(None, tmp_path, None, None, Preset("deviation"), out, "made/one.csv")

    names = {path.relative_to(out).as_posix() for path in out.rglob("*.*")}
    assert names == {
        "fleetpulse_deviation/made/fleetpulse_deviation_one.csv",
        "fleetpulse_deviation/made/fleetpulse_deviation_two.csv",
        "drawn/fleetpulse_deviation/made/fleetpulse_deviation_one.html",
        "drawn/fleetpulse_deviation/made/fleetpulse_deviation_one.svg",
    }
    assert [Path(path).suffix for path in found["drawn"]] == [".html", ".svg"]
    assert all(Path(path).is_file() for path in found["drawn"])
    with pytest.raises(ConfigError, match=r"is not one of the 2 series; they are called made/one\.csv, made/two\.csv"):
        backtest_files(None, tmp_path, None, None, Preset("deviation"), out, "one")


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "rows"])
def test_what_is_written_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: bool) -> None:
    """With pyarrow and without: who reads scores or drawings of an earlier run reads all of them, and nothing else is
    left."""
    data, out = tmp_path / "data" / "made" / "one.csv", tmp_path / "out"
    if not columns:
        monkeypatch.setattr(files, "arrow", lambda _part: None)

    def run(points: Points) -> dict[Path, bytes]:
        written(data, points)
        backtest_files(None, tmp_path, None, None, Preset("deviation"), out, "made/one.csv")
        return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    before = run(wave(400, jump=range(300, 310)))
    with ExitStack() as opened:
        earlier = {path: opened.enter_context(path.open("rb")) for path in before}
        after = run(wave(50))

        assert {path: file.read() for path, file in earlier.items()} == before
    assert after.keys() == before.keys()
    assert len(after) == 3
    assert all(after[path] != before[path] for path in after)


def judge(folder: Path, out: Path) -> list[SeriesResult]:
    return backtest(series_of(folder), Preset("deviation"), Kept(out), lambda _done, _all: None)


def test_the_layout_of_the_benchmark(tmp_path: Path, reading: str) -> None:
    """Scores stand at <detector>/<category>/<detector>_<file>.csv, row by row as in the data, with their labels."""
    written(tmp_path / "data" / "made" / "one.csv", wave(400, jump=range(300, 310)))
    written(tmp_path / "data" / "made" / "two.csv", wave(50))
    windows = {"made/one.csv": [["1970-01-02 01:00:00.000000", "1970-01-02 01:10:00.000000"]], "made/two.csv": []}
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "combined_windows.json").write_text(json.dumps(windows))

    results = judge(tmp_path, tmp_path / "out")

    folder = tmp_path / "out" / "fleetpulse_deviation" / "made"
    lines = (folder / "fleetpulse_deviation_one.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines[1:]]
    assert lines[0] == "timestamp,value,anomaly_score,label"
    assert len(rows) == 400
    assert [float(row[0]) for row in rows] == [number * 300.0 for number in range(400)]
    assert [float(row[1]) for row in rows] == wave(400, jump=range(300, 310)).values.tolist()
    assert [index for index, row in enumerate(rows) if row[3] == "1"] == [300, 301, 302]
    assert float(rows[300][2]) > 0.75 > 0.5 > max(float(row[2]) for row in rows[:300])
    assert (folder / "fleetpulse_deviation_two.csv").exists()
    found = total(results)
    assert found is not None
    assert (found.runs, found.right, found.spans, found.found) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    "stamp",
    [
        pytest.param(lambda ms: ms, id="milliseconds"),
        pytest.param(lambda ms: ms / 1_000, id="seconds"),
        pytest.param(lambda ms: datetime.fromtimestamp(ms / 1_000, UTC), id="moments"),
        pytest.param(lambda ms: datetime.fromtimestamp(ms / 1_000, UTC).replace(tzinfo=None), id="moments, no zone"),
        pytest.param(lambda ms: datetime.fromtimestamp(ms / 1_000, UTC).isoformat(), id="text"),
    ],
)
def test_many_series_of_a_parquet_file(tmp_path: Path, stamp: Callable[[int], Any]) -> None:
    """Mixed, in the order of the file for each; scores of each are written by its name."""
    at_ms = 1_700_000_000_000
    names, points = ["a", "b/c"], [wave(400, range(300, 310), at_ms), wave(400, at_ms=at_ms)]
    rows = [(names[i], stamp(int(points[i].at_ms[k])), points[i].values[k]) for k in range(400) for i in (1, 0)]
    columns = {name: [row[place] for row in rows] for place, name in enumerate(("series", "timestamp", "value"))}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")

    found = series_of(tmp_path)
    results = judge(tmp_path, tmp_path / "out")

    assert [one.name for one in found] == ["x.parquet/a", "x.parquet/b/c"]
    assert np.array_equal(found[0].points.at_ms, points[0].at_ms)
    assert np.array_equal(found[1].points.values, points[1].values)
    assert [len(result.runs) for result in results] == [1, 0]
    assert len(list((tmp_path / "out").rglob("fleetpulse_deviation_*.csv"))) == 2


def test_a_parquet_file_needs_its_columns_and_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are named, and the extra that brings it."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"value": [1.0]}), path)
    with pytest.raises(ConfigError, match="must hold the columns timestamp, value"):
        read_files(path)
    monkeypatch.setattr(series_file, "arrow", lambda part: None)
    with pytest.raises(ConfigError, match=r"fleetpulse\[files\]"):
        read_files(path)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"timestamp": pa.array([1_000, None], pa.timestamp("ms"))}, "a timestamp is null"),
        ({"timestamp": pa.array([1, None])}, "a timestamp is null"),
        ({"timestamp": [None, "2026-01-01"]}, "a timestamp is null"),
        ({"timestamp": [1, 2], "series": ["a", None]}, "a series is null"),
        ({"timestamp": pa.array([], pa.string()), "value": pa.array([], pa.float64())}, "at least two moments"),
        ({"timestamp": [[1], [2]]}, "must hold the columns timestamp, value"),
    ],
    ids=["moments", "numbers", "texts", "series", "nothing", "lists"],
)
def test_a_parquet_file_with_nulls_or_nothing_is_refused(tmp_path: Path, columns: dict[str, Any], says: str) -> None:
    """It is named, as other files are that are none."""
    pq.write_table(pa.table({"value": [1.0, 2.0]} | columns), tmp_path / "x.parquet")

    with pytest.raises(ConfigError, match=f"x.parquet.*{says}"):
        series_of(tmp_path)


def test_the_series_of_a_query() -> None:
    """By name; timestamps as the database gives them; what is null is unknown."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [("b", at, 1), ("a", at, 2.5), ("b", at.replace(hour=1), None), ("a", at.replace(hour=1), 3)]

    found = queried(Answer(("series", "timestamp", "value"), rows))
    [single] = queried(Answer(("value", "timestamp"), [(1, 10), (2, 20)]))

    assert [(one.name, [str(value) for value in one.points.values]) for one in found] == [
        ("a", ["2.5", "3.0"]),
        ("b", ["1.0", "nan"]),
    ]
    assert (single.name, single.points.at_ms.tolist()) == ("query", [10_000, 20_000])
    for columns, rows in ((("timestamp",), [(1,)]), (("timestamp", "value"), []), (("timestamp", "value"), [("x", 1)])):
        with pytest.raises(ConfigError, match="--query"):
            queried(Answer(columns, rows))


@pytest.mark.parametrize(
    ("name", "path"),
    [("a/b.csv", "d/a/d_b.csv"), ("../../x", "d/d_x.csv"), ("", "d/d_series.csv"), ("/etc/p", "d/etc/d_p.csv")],
)
def test_results_stay_in_their_folder(name: str, path: str) -> None:
    """Whatever a series is called: names come from anybody's data."""
    assert result_path(Path("out"), "d", name) == Path("out") / path


def test_a_directory_without_series_or_with_bad_labels_is_refused(tmp_path: Path) -> None:
    """The text says what must be there."""
    with pytest.raises(ConfigError, match=r"holds no \.csv and no \.parquet"):
        series_of(tmp_path)
    written(tmp_path / "made" / "one.csv", wave(3))
    assert series_of(tmp_path)[0].labelled is None
    (tmp_path / "combined_windows.json").write_text('{"made/one.csv": [["x", "y"]]}')
    with pytest.raises(ConfigError, match="must map files"):
        series_of(tmp_path)
