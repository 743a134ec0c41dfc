"""A provider's invoice beside bills and silence: hours and money by type, mistakes of a file by their line."""

from __future__ import annotations

from typing import Any

import pytest

from fleetpulse.audit.invoice import EVERY_DAY, Invoiced, compared, read_invoice, span_of
from schemas.errors import ConfigError
from schemas.limits import DAY_MS, HOUR_MS

H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"


def covered(**given: Any) -> dict[str, Any]:
    """A row of ``cost_coverage``: ten hours billed at 2 dollars, one silent."""
    return {
        "day": 20_000, "region": "eu", "gpu_model": H100, "billed_gpu_ms": 10 * HOUR_MS, "silent_gpu_ms": HOUR_MS,
        "billed_nusd": 20 * 10**9, "unobserved_nusd": 2 * 10**9, **given,
    }  # fmt: skip


def test_lines_are_whole_milliseconds_and_nano_dollars() -> None:
    """Columns in any order, blank lines left out; money may be missing."""
    lines = ["usd, gpu_hours ,gpu_model,day\n", "$24.20,11,H100,2026-01-31\n", "\n", ",0.5,A100,2026-02-01\n"]

    found = read_invoice("i.csv", lines)

    assert found == [
        Invoiced("H100", 20_484, 11 * HOUR_MS, 24_200_000_000), Invoiced("A100", 20_485, HOUR_MS // 2, None),
    ]  # fmt: skip
    assert span_of(found) == (20_484 * DAY_MS, 20_486 * DAY_MS)
    assert span_of(read_invoice("i.csv", ["gpu_model,gpu_hours", "H100,1"])) is None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param(["gpu_model,hours", "H100,1"], r"i\.csv:1 = .*gpu_model, gpu_hours", id="no column of hours"),
        pytest.param([], r"i\.csv:1 = ", id="nothing"),
        pytest.param(["gpu_model,gpu_hours"], r"i\.csv:1 = .*a line of GPU hours", id="no line"),
        pytest.param(["gpu_model,gpu_hours", "H100,1", "H100,many"], r"i\.csv:3 = 'many': .*GPU hours", id="no number"),
        pytest.param(["gpu_model,gpu_hours", "H100,-1"], r"i\.csv:2 = '-1': .*0 or more", id="below zero"),
        pytest.param(["gpu_model,gpu_hours", "H100,NaN"], r"i\.csv:2 = 'NaN': .*0 or more", id="not a number"),
        pytest.param(["gpu_model,gpu_hours", "H100,1e999999"], r"i\.csv:2 = '1e999999': .*at most 1,000", id="beyond"),
        pytest.param(["gpu_model,gpu_hours,usd", "H,1,1e10"], r"i\.csv:2 = '1e10': .*US dollars", id="no sum of money"),
        pytest.param(["gpu_model,gpu_hours", "H100"], r"i\.csv:2 = 'H100': must have 2 values", id="too short"),
        pytest.param(["gpu_model,gpu_hours", ",1"], r"i\.csv:2 = '': must name a type", id="no type"),
        pytest.param(["gpu_model,gpu_hours,day", "H100,1,31.1."], r"i\.csv:2 = '31\.1\.': must be a day", id="no day"),
        pytest.param(
            ["gpu_model,gpu_hours\n", 'H100,"1\n', *["A100,1\n"] * 20_000],
            r"i\.csv:\d+ = '': must be CSV: field larger",
            id="a quote that is never closed",
        ),
        pytest.param(["gpu_model\r,gpu_hours\n"], r"i\.csv:1 = '': must be CSV: new-line", id="no CSV from the first"),
    ],
)
def test_a_mistake_is_named_by_file_and_line(lines: list[str], said: str) -> None:
    """Nothing is compared with half a file."""
    with pytest.raises(ConfigError, match=said):
        read_invoice("i.csv", lines)


def test_what_was_billed_and_what_was_silent_is_what_is_invoiced() -> None:
    """To the tolerance: at it is equal, beyond it differs; a silent hour is paid for like any other."""
    (exact,) = compared([Invoiced("h100", EVERY_DAY, 11 * HOUR_MS, 22 * 10**9)], [covered()], 0.0)
    assert (exact.gpu_model, exact.day, exact.gpu_ms_off, exact.nusd_off, exact.differs) == (H100, "", 0, 0, False)

    lines = [Invoiced(H100, EVERY_DAY, 12 * HOUR_MS, 24 * 10**9)]
    (more,) = compared(lines, [covered()], 1 / 12)
    assert (more.gpu_ms_off, more.nusd_off, more.differs) == (HOUR_MS, 2 * 10**9, False)
    assert compared(lines, [covered()], 0.08)[0].differs


def test_money_alone_differs_too() -> None:
    """Hours are right, the price is not; without money hours alone are compared."""
    (dearer,) = compared([Invoiced(H100, EVERY_DAY, 11 * HOUR_MS, 33 * 10**9)], [covered()], 0.01)
    assert (dearer.gpu_ms_off, dearer.nusd_off, dearer.differs) == (0, 11 * 10**9, True)

    (hours,) = compared([Invoiced(H100, EVERY_DAY, 11 * HOUR_MS, None)], [covered()], 0.01)
    assert (hours.invoiced_nusd, hours.nusd_off, hours.differs) == (None, None, False)


def test_a_line_without_money_beside_one_that_has_some_differs() -> None:
    """Nobody takes half a sum for the whole, nor hours alone for a check of money."""
    lines = [Invoiced(H100, EVERY_DAY, 5 * HOUR_MS, 22 * 10**9), Invoiced(H100, EVERY_DAY, 6 * HOUR_MS, None)]

    (found,) = compared(lines, [covered()], 0.5)

    assert (found.invoiced_nusd, found.gpu_ms_off, found.nusd_off, found.differs) == (22 * 10**9, 0, 0, True)


@pytest.mark.parametrize("name", ["A100-SXM4-80GB", "nvidia a100 sxm4 80gb", "NVIDIA A100-SXM4-80GB", "A100 80GB"])
def test_a_type_is_called_with_hyphens_or_without(name: str) -> None:
    """As providers write it."""
    (found, other) = compared([Invoiced(name, EVERY_DAY, HOUR_MS, None)], [covered(), covered(gpu_model=A100)], 0.5)

    assert (found.gpu_model, found.invoiced_gpu_ms) == (A100, HOUR_MS)
    assert other.gpu_model == H100


def test_types_of_one_side_alone_stand_in_the_table() -> None:
    """Invoiced and never seen, or billed and not invoiced: both differ. A name that two types share is neither."""
    coverage = [covered(), covered(gpu_model=A100), covered(gpu_model="NVIDIA A100-PCIE-40GB")]

    found = compared([Invoiced("A100", EVERY_DAY, HOUR_MS, None), Invoiced("sxm4", EVERY_DAY, 11 * HOUR_MS, None)],
                     coverage, 0.01)  # fmt: skip

    assert {row.gpu_model: (row.gpu_ms_off // HOUR_MS, row.differs) for row in found} == {
        "A100": (1, True), H100: (-11, True), A100: (0, False), "NVIDIA A100-PCIE-40GB": (-11, True),
    }  # fmt: skip


def test_days_are_compared_day_by_day() -> None:
    """Where the invoice has them: too much on one day is not made good by the next."""
    lines = [Invoiced(H100, 20_000, 12 * HOUR_MS, None), Invoiced(H100, 20_001, 10 * HOUR_MS, None)]

    found = compared(lines, [covered(), covered(day=20_001, silent_gpu_ms=0)], 0.01)

    assert [(row.day, row.gpu_ms_off // HOUR_MS, row.differs) for row in found] == [
        ("2024-10-04", 1, True), ("2024-10-05", 0, False),
    ]  # fmt: skip
