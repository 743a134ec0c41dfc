"""Each metric is one expression, wherever it stands."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import product

import numpy as np
import pytest

from fleetpulse import queries
from fleetpulse.queries import dashboard
from lab.oracle.recount import Request, outcome
from schemas.ddl import range_views
from schemas.definitions import BY_MINUTE_MS, COVERED, END, JUDGED, METRICS, REPORTING, UNANSWERED, end_of, written
from schemas.events.event_types import ERROR_KINDS, STATUSES
from stream_jobs.costs.goodput import FAILED, GOOD, LEFT_OUT, Served, verdicts
from stream_jobs.costs.wide import UNKNOWN
from stream_jobs.rules.load import load_set
from stream_jobs.rules.model import SloClass, Where


def test_a_place_becomes_the_metric_s_expression() -> None:
    """Other places stay, for the server."""
    assert written("SELECT {failed:Metric} AS failed, {top:UInt32}") == (
        f"SELECT sumIf(event_count, {END['failed']}) AS failed, {{top:UInt32}}"
    )


def test_a_place_becomes_the_condition_of_an_end() -> None:
    """In brackets, so that NOT takes all of it; bills have one of their own."""
    assert written("NOT {ok:End} AND {unanswered:End}") == f"NOT ({END['ok']}) AND ({UNANSWERED})"


def test_every_metric_says_what_it_is() -> None:
    """Shares name what they are of."""
    assert all(one.meaning and one.unit and one.sql for one in METRICS.values())
    assert {one.name for one in METRICS.values() if one.unit == "share"} == {
        one.name for one in METRICS.values() if one.of
    }


def test_no_query_counts_the_ends_of_requests_by_a_formula_of_its_own() -> None:
    """Of windows: what is summed by status is a metric of the definitions."""
    texts = {name: queries.text(name) for name in queries.names()}
    texts |= {name: dashboard.query(name).sql for name in dashboard.names()}
    known = sorted((one.sql for one in METRICS.values()), key=len, reverse=True)
    for name, sql in texts.items():
        text = sql
        for one in known:
            text = text.replace(one, "")
        found = re.findall(r"sumIf\(event_count, [^)]*status.*", text)
        assert found == [], name


def test_no_query_has_a_condition_of_its_own_on_whether_requests_were_answered() -> None:
    """Written by hand it would leave out what the definitions take, or take what they leave out."""
    names = [name for folder in (queries, dashboard) for name in files(folder.__name__).iterdir()]
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in names if entry.name.endswith(".sql")}

    assert "request_cost_of_alert.sql" in texts
    for name, sql in texts.items():
        assert re.findall(r"status\s*(?:!=|=|NOT IN|IN)\s*\(?'(?:ok|error).*", sql) == [], name


ENDS = [(status, None) for status in ("ok", "aborted")]
ENDS += product(sorted(set(STATUSES) - {"ok", "aborted"}), (None, *ERROR_KINDS))
"""Every way in which a request can end: kinds of errors are of those that did not end well."""


def held(sql: str, status: str, kind: str | None, *, missed: bool = False) -> bool:
    """Whether a condition of the definitions holds of a request."""
    text = (
        sql.replace("NOT missed", "not missed")
        .replace(" OR ", " or ")
        .replace("ifNull(status, '')", "status")
        .replace("ifNull(error_kind, '')", "kind")
    )
    text = text.replace(" = ", " == ").replace("NOT IN", "not in").replace("AND", "and")
    return bool(eval(text, {"status": status, "kind": kind or "", "missed": missed}))


def ended(status: str, kind: str | None) -> str:
    """How the oracle names it."""
    return outcome(Request(0, "m", "t", status, kind or "", 0, 0, 0, None))


def test_one_of_the_four_ends_holds_of_every_request() -> None:
    """The one that the oracle says, too."""
    for status, kind in ENDS:
        assert [end for end, sql in END.items() if held(sql, status, kind)] == [ended(status, kind)]
        assert end_of(status, kind) == ended(status, kind)


def test_bills_know_of_the_four_ends_as_much_as_the_status_says() -> None:
    """What is unanswered there failed or was a client fault."""
    for status, kind in ENDS:
        assert held(UNANSWERED, status, kind) == (ended(status, kind) in ("client_fault", "failed"))


@pytest.mark.parametrize(("status", "kind"), ENDS)
@pytest.mark.parametrize("missed", [False, True], ids=["met", "missed"])
def test_single_requests_are_judged_as_windows_are(status: str, kind: str | None, missed: bool) -> None:
    """By the conditions that queries over single requests have, and by the job that writes the verdicts of windows."""
    served = {"ttft_us": 2_000 if missed else 1_000, "tpot_us": UNKNOWN, "e2e_us": UNKNOWN}
    columns = {name: np.array([value]) for name, value in {"slo_class": 0, **served}.items()}
    flags = (np.array([one]) for one in (status == "ok", status == "aborted", kind == "client"))
    tokens = dict.fromkeys(("input_tokens", "output_tokens"), np.array([1]))
    ended_so = dict(zip(("ok", "aborted", "client_fault"), flags, strict=True))
    verdict, _ = verdicts(Served(**columns, **ended_so, **tokens), [SloClass("c", ttft_us=1_500, share=0.9)])

    left_out, good = (held(JUDGED[name], status, kind, missed=missed) for name in ("left_out", "good"))
    assert (left_out, good) == (verdict[0] == LEFT_OUT, verdict[0] == GOOD)
    assert held(UNANSWERED, status, kind) == (verdict[0] == FAILED or (left_out and status != "aborted"))


def test_no_query_sums_verdicts_of_windows_by_a_formula_of_its_own() -> None:
    """Those of the definitions do not overflow, and are one answer."""
    folders = [name for folder in (queries, dashboard) for name in files(folder.__name__).iterdir()]
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folders if entry.name.endswith(".sql")}

    assert {name for name, sql in texts.items() if "{good:Metric}" in sql} == {
        "cost_goodput_windows.sql",
        "goodput_over_time.sql",
    }
    for name, sql in texts.items():
        assert re.findall(r"sum\w*\([^,)]*(?:judged_requests|good_requests|good_tokens)_sum", sql) == [], name


def test_time_with_data_is_written_once() -> None:
    """The view and the queries of pages are of the same pieces, over different levels of the same rows; up to six
    hours no hour is looked at whole."""
    (view,) = [one for one in range_views.views() if "covered_time" in one]
    short, long = (dashboard.query(dashboard.covered(span_ms)) for span_ms in (BY_MINUTE_MS, BY_MINUTE_MS + 1))

    for piece in COVERED.values():
        assert piece in view
        assert piece in long.sql
    assert COVERED["covered_ms"] in short.sql
    for page in (short, long):
        for topic, grouping in REPORTING.items():
            assert topic in {one.topic for one in page.sources.values()}
            for text in (view, page.sql):
                assert f"grouping = '{grouping}'" in text


def matches(where: Where, status: str, kind: str | None) -> bool:
    """Whether a condition of a rule holds."""
    return ({"status": status, "error_kind": kind}[where.dimension] in where.one_of) != where.negated


def test_rules_of_error_budgets_judge_what_pages_show_as_failed() -> None:
    """The same requests above, and the same below."""
    rules = [rule.value for rule in load_set().rules if rule.name in ("slo_errors", "slo_errors_slow")]

    assert len(rules) == 2
    for measure, (status, kind) in product(rules, ENDS):
        assert measure.match is not None
        judged = all(matches(one, status, kind) for one in measure.where)
        assert judged == (ended(status, kind) != "client_fault")
        assert (judged and matches(measure.match, status, kind)) == (ended(status, kind) == "failed")
