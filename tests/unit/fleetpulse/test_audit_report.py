"""The result of an audit: exact or not, and what its lines say."""

from __future__ import annotations

import re

import pytest

from fleetpulse.audit.checks import SIZED, Check, rollups
from fleetpulse.audit.report import Audit
from fleetpulse.commands.money import audited
from stream_jobs.costs.bill import slices_held


def test_an_audit_is_exact_only_when_all_agree() -> None:
    """No bill, or a difference: each is not exact."""

    def made(bills: int = 5, differing: int = 0) -> bool:
        return Audit(0, 1, [Check("parts", bills, differing, differing)], 1, 1, 1, 1, ()).exact

    assert [made(), made(bills=0), made(differing=1)] == [True, False, False]


def test_bills_that_were_not_priced_again_are_not_exact() -> None:
    """Unless people leave prices out; then a difference still counts. Machines are told both."""

    def found(unpriced: str, with_prices: bool, differing: int = 0) -> tuple[bool, bool]:
        parts = Check("parts", 5, differing, differing)
        audit = Audit(0, 1, [parts], 0, 0, 0, 0, (), unpriced=unpriced, with_prices=with_prices)
        said = audit.as_dict()
        return said["exact"], said["priced"]

    assert found("", with_prices=True) == (True, True)
    assert found("another file", with_prices=True) == (False, False)
    assert found("another file", with_prices=False) == (True, False)
    assert found("another file", with_prices=False, differing=1) == (False, False)


@pytest.mark.parametrize(
    ("bills", "differing", "unpriced", "said"),
    [(5, 0, "", False), (5, 1, "", "bills differ"), (5, 0, "another file", "--without-prices"), (0, 0, "", "no bill")],
    ids=["exact", "differs", "not priced", "nothing"],
)
def test_an_audit_that_is_not_exact_says_why(bills: int, differing: int, unpriced: str, said: str | bool) -> None:
    """Exit 1 with a sentence."""
    audit = Audit(0, 1, [Check("parts", bills, differing, differing)], 0, 0, 0, 0, (), unpriced)

    wrong = audited(audit).wrong
    assert said in wrong if isinstance(said, str) and isinstance(wrong, str) else wrong is said


def test_what_could_not_be_compared_is_said() -> None:
    """Bills outlive the readings that they are made of."""

    def lines(kept_ms: int) -> list[str]:
        return list(Audit(0, 120_000, [Check("parts", 5, 0, 0)], 0, 0, 0, 0, (), kept_ms=kept_ms).lines())

    said = "readings expired, not compared: bills before 1970-01-01 00:01 (UTC) are checked in their parts and rollups"
    assert (lines(0), lines(60_000)) == ([], [f"{said} alone"])


def test_lines_of_an_audit_name_what_differs_and_what_is_late() -> None:
    """Where to look, and what mends it."""
    audit = Audit(
        0, 1, [Check("parts", 1, 1, 7, ["engine e, 2026: off by 7"])], 1, 1, 1, 1, (), "another file", ["costs: x"]
    )

    assert list(audit.lines()) == [
        "parts: engine e, 2026: off by 7",
        "declared missing by costs: x",
        "not priced again: another file",
        "1 rows of GPU readings, 1 of usage and 1 of shares came when their minute was no longer kept"
        " (1 group-minutes):",
        "  `fleetpulse rerate` takes them in",
    ]
    assert "costs_1d" in rollups("day")
    assert "cost_parts_1h" in rollups("hour")


def test_minutes_without_any_bill_are_counted_apart_and_not_exact() -> None:
    """They are no late rows of a bill: nothing of them is billed."""
    audit = Audit(0, 1, [Check("parts", 5, 0, 0)], 9, 1, 0, 3, (), no_bill_minutes=2)

    assert (audit.exact, audit.agree) == (False, True)
    assert audited(audit).wrong == "minutes have no bill at all; the lines above count them"
    assert [line for line in audit.lines() if line.startswith("no bill: 2 of these group-minutes")]


@pytest.mark.parametrize("level", ["hour", "day"])
def test_sums_that_reports_read_are_held_against_the_bills(level: str) -> None:
    """They are kept in tables of their own, unlike the views by hour and day."""
    assert {"billed", "billed_parts", "billed_owners"} <= set(re.findall(r"FROM (\w+)\(from_ms", rollups(level)))


@pytest.mark.parametrize(
    "profile", ["1g.10gb", "7g.80gb", "1c.3g.40gb", "8g.80gb", "0g", "01g.5gb", "10g.1gb", "g", "3g", ""]
)
def test_a_mig_device_has_a_size_where_the_cost_job_reads_one(profile: str) -> None:
    """Else bills of GPUs of unknown size would be priced by it, or left out."""
    assert bool(re.search(SIZED, profile)) == (slices_held(profile) is not None)
