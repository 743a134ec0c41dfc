"""What the table of a curve shows, and that no curve is lost that was measured."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest
from typer.testing import CliRunner, Result

from fleetpulse.baseline.curve import Curve, Point, Setup, text_of
from fleetpulse.cli import app
from fleetpulse.commands import baseline
from fleetpulse.commands.baseline import show_curve

LATENCY = {"p50": 1_000, "p95": 2_000, "p99": 3_000}


def test_percentiles_of_few_requests_read_few(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that were good; gaps between tokens are many more than requests."""
    monkeypatch.setenv("COLUMNS", "200")
    points = [
        Point(at, 100, failed, 1.0, 9.0, ttft_us=LATENCY, itl_us=LATENCY, e2e_us=LATENCY)
        for at, failed in ((1, 0), (2, 1), (4, 81))
    ]

    show_curve(Curve(Setup("m"), tuple(points)), [], None, 5.0)

    rows = [[cell.strip() for cell in line.split("│")] for line in capsys.readouterr().out.splitlines()]
    shown = [line for line in map(" ".join, rows) if "100" in line]
    assert [line.count("few") for line in shown] == [0, 2, 4]


@pytest.fixture(name="measured")
def _measured(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """What measures, replaced: a curve of one point."""
    point = Point(1, 16, 0, 1.0, 16.0, ttft_us=LATENCY, itl_us=LATENCY, e2e_us=LATENCY)
    curve = Curve(Setup("m", "http://e"), (point,))
    measured = Mock(return_value=curve)
    monkeypatch.setattr(baseline, "_model", AsyncMock(return_value=("m", None)))
    monkeypatch.setattr(baseline, "_measured", measured)
    return measured


def _kept_in(file: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["baseline", "http://e", "--out", str(file), *more])


def test_the_curve_is_in_its_file(measured: Mock, tmp_path: Path) -> None:
    """Also in place of another one, and the exit code is 0."""
    file = tmp_path / "curve.json"
    file.write_text("before")

    assert [_kept_in(each).exit_code for each in (file, tmp_path / "new.json")] == [0, 0]
    assert json.loads(file.read_text())["model"] == "m"
    assert (tmp_path / "new.json").read_text() == file.read_text()
    assert measured.call_count == 2


def test_an_earlier_curve_is_replaced_as_a_whole(measured: Mock, tmp_path: Path) -> None:
    """Ctrl-C or a full disk would have left half of one: whoever reads the earlier one reads all of it."""
    file = tmp_path / "curve.json"
    file.write_text("before")

    with file.open() as earlier:
        answer = _kept_in(file)

        assert (answer.exit_code, earlier.read()) == (0, "before")
    assert [*tmp_path.iterdir()] == [file]
    measured.assert_called_once()


@pytest.mark.parametrize(
    "place", ["missing/curve.json", "", "file/curve.json"], ids=["no folder", "a folder", "a file"]
)
def test_a_file_that_cannot_be_written_is_named_before_anything_is_measured(
    measured: Mock, tmp_path: Path, place: str
) -> None:
    """Measuring may take an hour. Nothing is left behind."""
    (tmp_path / "file").touch()

    answer = _kept_in(tmp_path / place)

    assert answer.exit_code != 0
    assert "--out" in f"{answer.stderr} {answer.exception}"
    measured.assert_not_called()
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_folder_without_the_right_to_write_is_named_before(
    measured: Mock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the system says of it; who is root may write anywhere."""
    monkeypatch.setattr("os.access", lambda *_: False)

    answer = _kept_in(tmp_path / "curve.json")

    assert "--out" in str(answer.exception)
    measured.assert_not_called()


@pytest.mark.parametrize(("requests", "asked"), [("63", False), ("64", True), ("0", True)])
def test_fewer_requests_than_are_to_be_open_at_one_time_are_refused(
    measured: Mock, tmp_path: Path, requests: str, asked: bool
) -> None:
    """A point would be called after a concurrency that there never was."""
    answer = _kept_in(tmp_path / "curve.json", "--concurrency", "1..64", "--requests", requests)

    assert (answer.exit_code == 0) is asked
    assert measured.called is asked
    assert asked or "--requests" in str(answer.exception)


@pytest.mark.usefixtures("measured")
def test_p95_of_few_requests_is_not_judged_and_that_is_said(tmp_path: Path) -> None:
    """16 requests: it is twice that of the earlier curve, and the exit code is 0."""
    earlier = tmp_path / "earlier.json"
    quick = LATENCY | {"p95": 1_000}
    point = Point(1, 16, 0, 1.0, 16.0, ttft_us=quick, itl_us=LATENCY, e2e_us=quick)
    earlier.write_bytes(text_of(Curve(Setup("m"), (point,))))

    shown, data = (_kept_in(tmp_path / "curve.json", "--compare", str(earlier), *more) for more in ((), ("--json",)))

    assert (shown.exit_code, data.exit_code) == (0, 0)
    assert "too few requests (p95 takes 200 in both curves: --requests): concurrency 1" in " ".join(
        shown.stderr.split()
    )
    judged = {one["measure"]: one["judged"] for one in json.loads(data.stdout)["compared"]}
    assert [name for name in judged if not judged[name]] == ["ttft_us p95", "e2e_us p95"]


@pytest.mark.usefixtures("measured")
def test_a_curve_that_cannot_be_kept_is_shown() -> None:
    """The disk is full by now: exit 1 and why, the numbers are there."""
    shown, data = _kept_in(Path("/dev/full")), _kept_in(Path("/dev/full"), "--json")

    assert (shown.exit_code, data.exit_code) == (1, 1)
    assert json.loads(data.stdout)["points"][0]["requests_per_s"] == 16.0
    assert "16" in shown.stdout
    assert "the curve is not kept in /dev/full: No space left on device" in shown.stderr
