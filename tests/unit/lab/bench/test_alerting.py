"""The arithmetic of the alert bench: which delay is whose, when a window was final, which faults are made."""

from __future__ import annotations

from dataclasses import replace

from lab.bench.alerting import LASTS_S, PREFIX, SETTLE_S, Seen, _report, delays_s, finals_s, schedule
from lab.simulator.faults import faults_of
from schemas.contract.alerts import Alert
from schemas.rows.finals import PROGRESS_SCHEMA, FinalsHeaders

ALERT = Alert("0" * 16, "opened", 1, "gpu_hot", "warning", "", "", {}, 1_000_020_000, 0, 1_000_020_000)


def progress(upstream: int, through_ms: int) -> FinalsHeaders:
    return FinalsHeaders(PROGRESS_SCHEMA, upstream, 0, 0, True, through_ms, 0)


def test_a_window_is_final_when_the_last_upstream_has_told() -> None:
    """Windows that pass together get one time; nothing before every upstream spoke; what is told again changes none."""
    seen = Seen()
    seen.finals(1, progress(0, 1_000_010_000), 2)
    before = dict(seen.final_ms)
    seen.finals(2, progress(1, 1_000_030_000), 2)
    seen.finals(3, progress(0, 1_000_030_000), 2)
    seen.finals(4, progress(0, 1_000_030_000), 2)

    assert before == {}
    assert {end: at for end, at in seen.final_ms.items() if end >= 1_000_000_000} == {
        **dict.fromkeys(range(1000000000, 1000010001, 10000), 2),
        1_000_020_000: 3,
        1_000_030_000: 3,
    }


def test_delays_are_told_apart_by_who_opened() -> None:
    """An event counts from its own time, a rule from its window's last finals; other transitions count for nothing."""
    seen = Seen(final_ms={1_000_020_000: 1_000_022_500})
    seen.alert(1_000_022_600, ALERT)
    seen.alert(1_000_022_700, replace(ALERT, transition="updated"))
    seen.alert(1_000_020_250, replace(ALERT, rule="gpu_xid", labels={"gpu_uuid": f"{PREFIX}7"}))
    seen.alert(1_000_020_900, replace(ALERT, rule="gpu_lost", labels={"gpu_uuid": "GPU-1"}))
    seen.alert(1_000_099_000, replace(ALERT, opened_ms=1_000_030_000))
    seen.alert(1_000_099_000, replace(ALERT, transition="resolved"))

    assert delays_s(seen, frozenset({"gpu_hot"})) == ([0.25], [0.1])
    assert (len(seen.opened), seen.resolved) == (4, 1)


def test_an_event_that_opened_no_alert_is_beyond_the_bounds() -> None:
    """However soon the others' came; what was sent just before the end may still be on its way."""
    seen = Seen(ended_ms=1_000_100_000)
    seen.sent_ms = {f"{PREFIX}0": 1_000_020_000, f"{PREFIX}1": 1_000_090_000, f"{PREFIX}2": 1_000_090_001}
    seen.alert(1_000_020_250, replace(ALERT, rule="gpu_xid", labels={"gpu_uuid": f"{PREFIX}0"}))
    missing = _report(seen, 8, 180, 1, {})
    seen.alert(1_000_090_300, replace(ALERT, labels={"gpu_uuid": f"{PREFIX}1"}, opened_ms=1_000_090_000))
    answered = _report(seen, 8, 180, 1, {})

    assert (missing["events_sent"], missing["events_unanswered"]) == (3, 1)
    assert (missing["within"]["events_p99_s"], missing["within"]["every_event"]) == (True, False)
    assert (answered["events_unanswered"], answered["within"]["every_event"]) == (0, True)


def test_finals_count_from_the_end_of_their_window_while_the_fleet_ran() -> None:
    """Windows before and behind it are left out."""
    seen = Seen(final_ms={end_ms: end_ms + 1_500 for end_ms in range(1_000_000, 1_050_001, 10_000)})
    seen.final_ms[1_030_000] = 1_042_000

    assert finals_s(seen, 1_010_000, 1_030_000) == [1.5, 12.0]


def test_faults_hit_other_hosts_and_end_before_the_run_does() -> None:
    """Both kinds in turn; the schedule is one that the fleet accepts."""
    faults = faults_of(schedule(312, 180), 0)

    assert len(faults) == 87
    assert {fault.kind for fault in faults} == {"gpu_lost", "thermal_throttle"}
    assert len({fault.value for fault in faults}) == len(faults)
    assert min(fault.from_ms for fault in faults) == SETTLE_S * 1_000
    assert max(fault.to_ms for fault in faults) < 180_000
    assert {fault.to_ms - fault.from_ms for fault in faults} == {int(LASTS_S * 1_000)}
    assert len(schedule(8, 180)) == 8
