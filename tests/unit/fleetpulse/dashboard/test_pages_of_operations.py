"""The pure parts of Fleet, Alerts, Pipeline, Tenants, Cost and SQL."""

from __future__ import annotations

from datetime import UTC, date
from typing import Any, cast

import pytest

from fleetpulse import queries
from fleetpulse.dashboard.consumer_lag import Lag
from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.pages.alert_panel import facts, members, transitions
from fleetpulse.dashboard.pages.alerts import bar_ms, cut, open_counts, opened, silence_of
from fleetpulse.dashboard.pages.cost import hourly, listed, silent_rows, stacked, standings, whose
from fleetpulse.dashboard.pages.custom import series_of, unit_of
from fleetpulse.dashboard.pages.fleet import last_reported
from fleetpulse.dashboard.pages.pipeline import (
    CAUSES,
    caused,
    dump,
    joined,
    most_lag_first,
    named_tenants,
    place_of,
    place_text,
    shares,
)
from fleetpulse.dashboard.pages.pipeline import rates as pipeline_rates
from fleetpulse.dashboard.pages.sql import saved, text_of
from fleetpulse.dashboard.pages.tenants import cost_hint, rates, requests_link, totals
from fleetpulse.dashboard.sql_parameters import of_range, values_for
from fleetpulse.dashboard.time_range import TimeRange
from fleetpulse.dashboard.url_state import UrlState
from fleetpulse.dashboard.users import OPERATOR, VIEWER, User
from fleetpulse.dashboard.view import Facts, View
from fleetpulse.dashboard.zone import UTC_ZONE
from fleetpulse.queries.alerts import ALERTS_KEPT_MS
from fleetpulse.queries.dashboard import query
from fleetpulse.queries.offers import offered
from fleetpulse.sql.query import parameters_of
from schemas.contract.alerts import Alert, Member
from schemas.errors import ConfigError
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS
from stream_jobs.budgets.model import Budget, Budgets

NOW_MS = 1_800_000_000_000
ADA = User("ada", OPERATOR)


def alert(**other: Any) -> Alert:
    plain: dict[str, Any] = {
        "fingerprint": "f" * 16, "transition": "opened", "number": 1, "rule": "r", "severity": "warning",
        "summary": "s", "advice": "", "labels": {"host": "h"}, "opened_ms": NOW_MS, "since_ms": NOW_MS, "at_ms": NOW_MS,
    }  # fmt: skip
    return Alert(**{**plain, **other})


# alerts


def test_a_mute_names_the_alert_and_its_end() -> None:
    """From now until so much later, of this fingerprint alone, under an id of its own."""
    command = silence_of("f" * 16, NOW_MS, HOUR_MS, "why", ADA)

    assert (command.command, command.labels, command.by) == ("mute", {"fingerprint": "f" * 16}, "dashboard: ada")
    assert (command.from_ms, command.until_ms, command.reason) == (NOW_MS, NOW_MS + HOUR_MS, "why")
    assert command.id != silence_of("f" * 16, NOW_MS, HOUR_MS, "why", ADA).id


def test_a_mute_that_the_job_would_refuse_is_refused_here() -> None:
    """Longer than ninety days, or with a reason that is too long: rejected before anything is sent."""
    with pytest.raises(ConfigError, match="90 days"):
        silence_of("f", NOW_MS, 91 * DAY_MS, "", ADA)
    with pytest.raises(ConfigError, match="at most 256"):
        silence_of("f", NOW_MS, HOUR_MS, "x" * 257, ADA)


def test_a_viewer_silences_nothing() -> None:
    """Whatever the page that is open offers: the role is asked when the silence is sent."""
    with pytest.raises(ConfigError, match="only an operator"):
        silence_of("f", NOW_MS, HOUR_MS, "", User("bob", VIEWER))


def test_opened_alerts_are_stacked_the_worst_first() -> None:
    """Each has a point of every bar, for the chart stacks them by their place; severities that never came have none."""
    rows = [{"bucket": 1, "severity": "warning", "opened": 2}, {"bucket": 2, "severity": "critical", "opened": 1}]

    assert list(opened(rows).items()) == [("critical", [(1, 0.0), (2, 1.0)]), ("warning", [(1, 2.0), (2, 0.0)])]


@pytest.mark.parametrize(
    ("span_ms", "width_ms"),
    [(10_000, MINUTE_MS), (40 * MINUTE_MS, MINUTE_MS), (41 * MINUTE_MS, 2 * MINUTE_MS), (900 * DAY_MS, 7 * DAY_MS)],
)
def test_bars_are_wide_enough_to_be_seen(span_ms: int, width_ms: int) -> None:
    """At most forty of them, whole minutes wide; the widest is a week."""
    assert bar_ms(span_ms) == width_ms


def test_counts_are_of_all_open_alerts() -> None:
    """Also of those beyond the rows that came, of whatever severity; none where no row came."""
    counts = {"critical_alerts": 1_200, "warning_alerts": 30, "info_alerts": 0, "silenced_alerts": 7}

    assert open_counts([counts, counts]) == {"info": 0, "warning": 30, "critical": 1_200, "silenced": 7}
    assert set(open_counts([]).values()) == {0}
    assert cut("the worst first", 1_000, 1_237) == "the worst first; the first 1,000 of 1,237"
    assert cut("the worst first", 7, 7) == "the worst first"


def test_facts_leave_out_what_has_a_table_of_its_own() -> None:
    """Evidence and members have tables; the summary is the title."""
    found = dict(
        facts(alert(members=(Member("m", "info", {}, 0, None),), evidence={"touched": {}}, note="n"), UTC_ZONE)
    )

    assert found.keys() == {"alert", "state", "likely cause", "rule", "where", "since"}


def test_members_and_transitions_are_rows() -> None:
    """What ongoing has no end; the newest transition stands first, as the query gave it."""
    both = (Member("m", "info", {}, NOW_MS, None), Member("n", "info", {}, 0, 0, 1.0, "x"))
    found = members(alert(members=both), UTC_ZONE)
    row = {"at_ms": NOW_MS, "transition": "opened", "severity": "info", "summary": "s"}

    assert [cells[1:] for cells in found.rows] == [
        ("m", "m", "2027-01-15 08:00:00", "ongoing"),
        ("x", "n", "1970-01-01 00:00:00", "1970-01-01 00:00:00"),
    ]
    assert transitions([row], UTC_ZONE).rows == (("2027-01-15 08:00:00", "opened", "info", "s"),)


# pipeline


def test_topics_are_joined_and_what_is_not_known_stays_unknown() -> None:
    """One row a topic, whoever knows it; ages are never below nothing."""
    rows = joined(
        [{"topic": "b", "accepted": 3, "last_commit_ms": NOW_MS - 5}],
        [{"topic": "a", "written": 9}],
        [{"topic": "b", "newest_ms": NOW_MS + 7}],
        NOW_MS,
    )

    assert [(row["topic"], row["newest_ago_ms"], row["commit_ago_ms"]) for row in rows] == [
        ("a", None, None),
        ("b", 0, 5),
    ]


def test_rows_that_show_a_fault_name_its_cause() -> None:
    """GPU time of which a hundredth or more has no price; other joins have findings of the doctor's alone."""
    rows = [
        {"joined_with": "price", "total": 100, "joined_events": 98},
        {"joined_with": "price", "total": 100, "joined_events": 99},
        {"joined_with": "engine", "total": 100, "joined_events": 0},
    ]

    assert [row["wrong"] for row in caused("joins", rows)] == ["Price missing", "", ""]
    assert {caused(name, [{}])[0]["wrong"] for name in CAUSES if name != "joins"} == {
        "Clock off",
        "Records rejected",
        "Too many series",
    }


@pytest.mark.parametrize("row", [None, 0, 7])
def test_a_refused_row_is_found_again_by_its_address(row: int | None) -> None:
    """The whole record is row -1 in the address."""
    found = place_text({"topic": "llm.requests", "partition": 3, "offset": 12, "row": row})

    assert place_of(found) == {"topic": "llm.requests", "partition": 3, "offset": 12, "row": -1 if row is None else row}


@pytest.mark.parametrize("text", ["", "x", "../../1/1/1", "a/1/1", "a/1/1/1/1", "a/-1/1/1", "a/1/1/-2", "A'/1/1/1"])
def test_any_other_address_names_no_row(text: str) -> None:
    """What is no topic, partition, offset and row is nothing at all."""
    assert place_of(text) is None


def test_events_at_an_end_of_the_range_are_of_the_time_that_it_has() -> None:
    """To the millisecond, as books are written."""
    odd = {"rejected": 0, "untimely": 0, "duplicate": 0}
    series = [
        {"at_ms": 0, "topic": "a", "booked": 30, **odd},
        {"at_ms": 10_000, "topic": "a", "booked": 100, **odd, "rejected": 20},
        {"at_ms": 10_000, "topic": "b", "booked": 50, **odd, "rejected": 10},
    ]

    booked, not_accepted = pipeline_rates(series, TimeRange(7_000, 20_000), 10_000)

    assert booked == {"a": [(0, 10.0), (10_000, 10.0)], "b": [(10_000, 5.0)]}
    assert not_accepted == {
        "rejected": {0: 0.0, 10_000: 3.0},
        "untimely": {0: 0, 10_000: 0},
        "duplicate": {0: 0, 10_000: 0},
    }


def test_bytes_are_shown_as_digits_and_text() -> None:
    """Sixteen a line with their offset; what does not print is a dot."""
    lines = dump(b"<script>\x00\xff" + b"a" * 7).split("\n")

    assert lines == [
        "000000  3c 73 63 72 69 70 74 3e 00 ff 61 61 61 61 61 61  <script>..aaaaaa",
        "000010  61" + " " * 45 + "  a",
    ]
    assert dump(b"") == ""


# metrics


def test_a_counter_is_shown_by_the_seconds_that_a_point_counts() -> None:
    """And a level as it is; a point without a value is none."""
    place = {"of_service": "s", "of_host": "h", "with_attributes": ""}
    rows: list[dict[str, Any]] = [
        {"at_ms": 0, **place, "level": 4.0, "increase": 10.0},
        {"at_ms": 1, **place, "level": None, "increase": None},
    ]

    assert series_of(rows) == {"h": [(0, 4.0)]}
    assert series_of(rows, lambda _at_ms: 5.0) == {"h": [(0, 2.0)]}


def test_services_that_report_one_metric_are_told_apart() -> None:
    """Each has its unit and its series; without a service no unit is said that is not that of all."""
    seconds, mixed = [
        [{"metric": "wait", "of_service": name, "in_unit": unit} for name, unit in units]
        for units in ((("a", "s"), ("b", "s")), (("a", "s"), ("b", "ms")))
    ]
    place = {"at_ms": 0, "of_host": "h", "with_attributes": "k=v", "increase": None}
    rows: list[dict[str, Any]] = [{**place, "of_service": name, "level": level} for name, level in (("a", 1), ("b", 2))]

    assert [unit_of(mixed, "wait", service) for service in ("a", "b", "c", "")] == ["s", "ms", "", ""]
    assert (unit_of(seconds, "wait", ""), unit_of(seconds, "other", "")) == ("s", "")
    assert series_of(rows) == {"a h k=v": [(0, 1)], "b h k=v": [(0, 2)]}
    assert series_of(rows[1:]) == {"h k=v": [(0, 2)]}


# tenants


def test_rates_are_a_second_and_others_come_last() -> None:
    """The biggest tenant first, the others last; a moment without requests is 0, one outside is left out."""
    rows = [
        {"name": "", "at_ms": 0, "requests": 900},
        {"name": "a", "at_ms": 0, "requests": 10},
        {"name": "b", "at_ms": 0, "requests": 20},
        {"name": "b", "at_ms": 10_000, "requests": None},
        {"name": "b", "at_ms": 20_000, "requests": 5},
    ]

    assert list(rates(rows, "requests", {0: 10.0, 10_000: 10.0}).items()) == [
        ("b", [(0, 2.0), (10_000, 0.0)]),
        ("a", [(0, 1.0), (10_000, 0.0)]),
        ("", [(0, 90.0), (10_000, 0.0)]),
    ]
    assert rates(rows[:1], "requests", {0: 5.0}) == {"": [(0, 180.0)]}


def test_a_moment_without_data_of_anybody_is_a_gap() -> None:
    """As on other charts; one in which others have some is 0."""
    rows = [{"name": "a", "at_ms": 0, "requests": 10}, {"name": "b", "at_ms": 20_000, "requests": 5}]

    assert rates(rows, "requests", dict.fromkeys((0, 10_000, 20_000), 10.0)) == {
        "a": [(0, 1.0), (10_000, None), (20_000, 0.0)],
        "b": [(0, 0.0), (10_000, None), (20_000, 0.5)],
    }


def test_totals_are_of_all_points() -> None:
    """Whoever reported no tokens adds none."""
    row = {"requests": 3, "client_fault": 1, "failed": 0, "output_tokens": None}

    assert totals([row, {**row, "output_tokens": 7}]) == {
        "requests": 6, "client_fault": 2, "failed": 0, "output_tokens": 7
    }  # fmt: skip
    assert set(totals([]).values()) == {0}


def test_the_page_and_the_saved_query_call_the_same_alerts_open() -> None:
    """Both look back as far."""
    saved_query = queries.text("open_alerts")

    assert f"{ALERTS_KEPT_MS // DAY_MS} * {DAY_MS}" in saved_query


@pytest.mark.parametrize(("tenant", "link"), [("a&b", "/requests?tenant=a%26b"), (None, ""), ("", "")])
def test_requests_without_a_tenant_have_no_link(tenant: str | None, link: str) -> None:
    """It would lead to those of everybody."""
    user, data = User("ada", OPERATOR), cast(Data, None)
    view = View("/x", {}, UrlState(), data, Facts(), lambda: user, dark=False, zone=UTC_ZONE, now_ms=lambda: NOW_MS)

    assert requests_link(view, {"tenant": tenant}) == link


def test_the_cost_of_tenants_says_why_there_is_none() -> None:
    """Where a cluster is chosen, no job and no price would help."""
    assert cost_hint(None, "c") == "bills do not know clusters: choose none"
    assert cost_hint(None, "") == "start the cost job and give prices"
    assert cost_hint(0, "") == "of requests with a price"


# cost


def test_a_table_that_is_full_says_that_there_may_be_more() -> None:
    """By the bound of its query."""
    most = query("cost_tenants").listed_max

    assert most == 1_000
    assert listed("tenants", most - 1, most) == listed("tenants", most, None) == "tenants"
    assert listed("tenants", most, most) == "tenants; the 1,000 dearest, no more fit"
    assert query("models").listed_max is None


def test_only_what_is_nobodys_is_named_by_its_part_of_the_bills() -> None:
    """A tenant may be called as a part is."""
    names = ("not answered in full", "__idle__", "request", "__overhead__", "start-up", "")
    rows = [{"tenant": name, "nobody": nobody} for nobody in (0, 1) for name in names]

    found = [row["tenant"] for row in whose(rows, "tenant")]

    assert found == [*names, "requests not answered in full", "idle", "requests", "start-up", "start-up", ""]


def test_money_is_stacked_in_the_order_of_the_legend() -> None:
    """Parts without a price have no layer; unknown parts come last."""
    rows = [
        {"what": "new", "at_ms": 0, "cost": 1},
        {"what": "__idle__", "at_ms": 0, "cost": 2_000_000_000},
        {"what": "request", "at_ms": 0, "cost": 1_000_000_000},
        {"what": "__unpriced__", "at_ms": 0, "cost": None},
    ]

    assert list(stacked(rows).items()) == [("request", [(0, 1.0)]), ("__idle__", [(0, 2.0)]), ("new", [(0, 1e-9)])]


def test_money_at_an_end_of_the_range_is_of_the_minutes_that_it_has() -> None:
    """Three minutes of a point of five that the range begins in, two of the one that it ends in."""
    span = TimeRange(90_000, 720_000)
    points: list[tuple[int, float | None]] = [(0, 3.0), (300_000, 5.0), (600_000, 2.0), (900_000, None)]

    assert [y for _, y in hourly(points, span, 300_000)] == [60.0, 60.0, 60.0, None]


def test_silent_gpus_stand_by_type_among_what_stood_idle() -> None:
    """What has no price has no cost, and types that all reported have no row."""
    rows = silent_rows(
        [
            {"gpu_model": "H100", "silent_gpu_ms": 13, "unobserved_nusd": 30},
            {"gpu_model": "L4", "silent_gpu_ms": 3, "unobserved_nusd": None},
            {"gpu_model": "T4", "silent_gpu_ms": 0, "unobserved_nusd": 0},
        ]
    )

    assert [(row["owner"], row["a_gpu"], row["gpu_time_ms"], row["cost"]) for row in rows] == [
        ("silent GPUs", "H100", 13, 30),
        ("silent GPUs", "L4", 3, None),
    ]


def test_a_budget_stands_where_its_days_put_it() -> None:
    """Only what it names counts; without history there is no forecast."""
    budgets = Budgets((Budget("acme", 4_000, "tenant", "acme", 10, date(1970, 1, 1)),))
    days = [
        {"day": 20, "tenant": "acme", "model": "m", "cost_nusd": 1_000},
        {"day": 20, "tenant": "globex", "model": "m", "cost_nusd": 500},
        {"day": 20, "tenant": "acme", "model": "n", "cost_nusd": None},
    ]

    (row,) = standings(budgets, days, 20 * DAY_MS + 1)

    assert (row["spent_nusd"], row["share"], row["forecast_nusd"]) == (1_000, 0.25, None)
    assert (row["between"], row["over"]) == ("–", False)


# sql


ONLY_PEOPLE_KNOW = {
    *("dimension", "names", "bins", "bounds", "total", "known", "failed", "grain_ms", "kept_ms", "near_ms", "parts"),
    *("slo_classes", "slo_ttft_us", "slo_tpot_us", "slo_e2e_us"),
    *("partition", "offset", "row", "bytes_max", "input_nusd", "cached_nusd", "output_nusd"),
}
"""Places of saved queries without a value that fits every run: the page asks for them."""


def test_every_saved_query_can_be_run_as_it_stands() -> None:
    """Its tables are written in, and the page knows a value for every place but those that it has to ask for."""
    asked, span = set(), TimeRange(7, HOUR_MS)
    known = {"from_ms": 7, "to_ms": HOUR_MS, "bucket_ms": span.bucket_ms, "top": 50}
    known |= {"before_from_ms": 14 - HOUR_MS, "before_to_ms": 7}
    for name in saved():
        sql, offer = text_of(name, HOUR_MS), offered(name)
        wanted, filled = parameters_of(sql), values_for(sql, of_range(span, HOUR_MS, UTC), {}, offer)
        first = {place: values[0] for place, values in offer.items() if values}

        assert filled == {place: {**first, **known}.get(place, "") for place in filled}, name
        assert not wanted.keys() & {"gpu", "requests"}, name
        asked |= wanted.keys() - filled.keys()

    assert asked == ONLY_PEOPLE_KNOW


def test_who_is_furthest_behind_stands_first_and_who_never_ran_last() -> None:
    """Jobs that are equally far behind keep the order in which data flows."""
    found = [Lag("windows", "a", 0, 4), Lag("costs", "p", None, 4), Lag("sink", "b", 7, 1), Lag("finals", "p", 0, 4)]

    assert [row["job"] for row in most_lag_first(found)] == ["sink", "windows", "finals", "costs"]


# fleet


@pytest.mark.parametrize(("heard_ms", "to_ms"), [(119_999, 120_000), (120_000, 180_000), (10**9, 600_000)])
def test_a_pipeline_that_is_behind_shows_the_last_minute_that_was_heard_of(heard_ms: int, to_ms: int) -> None:
    """By whole minutes, as tables have them, and never later than the range."""
    known = [{"heard_ms": 5}, {"heard_ms": heard_ms}]

    assert last_reported(known, TimeRange(540_000, 600_000)) == TimeRange(to_ms - 60_000, to_ms)


def test_joins_are_shown_as_shares() -> None:
    """Per cent of what there is, with those who lack it in one line."""
    row = {"counted": "requests", "joined_with": "engine", "total": 200, "joined_events": 150, "lacks": ["a", "b"]}

    assert shares([row]) == [{**row, "share": 75.0, "lacks": "a, b"}]


def test_tenants_of_what_found_no_room_stand_in_one_line() -> None:
    """None where no tenant is known."""
    row = {"grouping": "service", "dimension": "model", "beyond": 3, "tenants": ["a", "b"]}

    assert named_tenants([row, {**row, "tenants": []}]) == [{**row, "tenants": "a, b"}, {**row, "tenants": ""}]
