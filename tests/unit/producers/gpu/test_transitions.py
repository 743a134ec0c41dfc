from __future__ import annotations

import pytest

from producers.gpu.fields import REMAP_FAILED
from producers.gpu.transitions import CLEAR_MS, GAP_MS, HOLD_MS, THROTTLED, THROTTLES, Happening, Watch, observe
from schemas.events.event_fields import ACTIONS, GPU_EVENT_KINDS

POWER_CAP, HEAT = 0x04, 0x40
IDLE, APP_CLOCKS, SYNC_BOOST, DISPLAY = 0x01, 0x02, 0x10, 0x100
HOT = Happening("clocks", "critical", "check_cooling", "clocks are halved or less by hardware because of heat", HEAT)
COOL = Happening("clocks", "info", "none", f"over: {HOT.message}", HEAT)


def seen(*samples: tuple[int, dict[str, int | None]], event_kinds: tuple[str, ...] = ()) -> list[tuple[int, Happening]]:
    """What happens in samples at these moments."""
    watch, happened = Watch(), []
    for at_ms, fields in samples:
        watch, events = observe(watch, at_ms, fields, {}, event_kinds)
        happened += [(at_ms, event) for event in events]
    return happened


def reasons(*parts: tuple[int, int, int]) -> list[tuple[int, dict[str, int | None]]]:
    """A sample a second: (from, to, reasons), the end excluded, in seconds."""
    return [(second * 1_000, {"clock_reasons": bits}) for begin, end, bits in parts for second in range(begin, end)]


def test_nothing_is_emitted_for_a_healthy_gpu() -> None:
    """At full load, with all that is no throttling."""
    healthy = {"recovery_action": 0, "ecc_corrected": 0, "ecc_uncorrected": 0, "remapped_rows_pending": 0}
    busy: dict[str, int | None] = {**healthy, "clock_reasons": IDLE | APP_CLOCKS | SYNC_BOOST | DISPLAY}

    assert seen(*[(second * 1_000, busy) for second in range(100)]) == []
    assert (IDLE | APP_CLOCKS | SYNC_BOOST | DISPLAY) & THROTTLED == 0


def test_what_the_gpu_does_not_report_changes_nothing() -> None:
    """Null is neither 0 nor a change."""
    assert seen((0, {}), (1_000, {"clock_reasons": None, "recovery_action": None})) == []


@pytest.mark.parametrize(("seconds", "events"), [(HOLD_MS // 1_000, 0), (HOLD_MS // 1_000 + 1, 1)])
def test_throttling_is_emitted_when_it_holds(seconds: int, events: int) -> None:
    """Clocks that go down for a moment are the rule under load."""
    assert seen(*reasons((0, 1, 0), (1, 1 + seconds, HEAT), (1 + seconds, 9, 0))) == [(4_000, HOT)] * events


def test_the_end_of_throttling_is_emitted_when_it_lasts() -> None:
    """A pause shorter than that is none."""
    after_s = 20 + CLEAR_MS // 1_000

    assert seen(*reasons((0, 8, HEAT), (8, 12, 0), (12, 20, HEAT), (20, 40, 0))) == [
        (3_000, HOT),
        (after_s * 1_000, COOL),
    ]


def test_throttling_that_comes_and_goes_is_emitted_once_a_minute() -> None:
    """The next beginning is emitted when the minute is over and it still holds."""
    flapping = [part for start in range(0, 90, 18) for part in ((start, start + 6, HEAT), (start + 6, start + 18, 0))]

    emitted = seen(*reasons(*flapping))

    assert emitted == [(3_000, HOT), (16_000, COOL), (75_000, HOT), (88_000, COOL)]
    assert emitted[2][0] - emitted[0][0] >= GAP_MS


def test_reasons_are_followed_by_themselves() -> None:
    """A power cap that holds all the time hides no heat."""
    emitted = seen(*reasons((0, 5, POWER_CAP), (5, 10, POWER_CAP | HEAT)))

    assert [(at_ms, event.code, event.severity) for at_ms, event in emitted] == [
        (3_000, POWER_CAP, "info"),
        (8_000, HEAT, "critical"),
    ]


def test_a_clock_set_back_does_not_silence() -> None:
    """Holding is counted from the earlier of the two moments."""
    emitted = seen(*[(at_ms, {"clock_reasons": HEAT}) for at_ms in (9_000_000, 5_000, 6_000, 8_000)])

    assert [at_ms for at_ms, _ in emitted] == [8_000]


def test_the_recovery_action_is_emitted_when_it_changes() -> None:
    """Also when it is there at the start, and when it is over; a reading without it is no change."""
    emitted = seen(*[(second, {"recovery_action": action}) for second, action in enumerate([1, 1, None, 1, 4, 0, 0])])

    assert [(at_ms, event.kind, event.code, event.action) for at_ms, event in emitted] == [
        (0, "recovery", 1, "reset_gpu"),
        (4, "recovery", 4, "drain_and_reset"),
        (5, "recovery", 0, "none"),
    ]


@pytest.mark.parametrize(
    ("event_kinds", "first"), [((), [60]), (("recovery",), [])], ids=["by samples", "by the driver"]
)
def test_a_recovery_that_is_still_wanted_is_emitted_again(event_kinds: tuple[str, ...], first: list[int]) -> None:
    """Before an alert of it is over, by whomever its beginning was reported; not once nothing is wanted."""
    wanted = {minute: None if minute % 20 else 2 for minute in range(60, 190, 10)}
    actions: dict[int, int | None] = {0: 0, **wanted, 190: 0, 250: 0}

    emitted = seen(
        *[(minute * 60_000, {"recovery_action": action}) for minute, action in actions.items()], event_kinds=event_kinds
    )

    repeated = [(minute, 2) for minute in (*first, 100, 140, 180)]
    assert [(at_ms // 60_000, event.code) for at_ms, event in emitted] == repeated + ([] if event_kinds else [(190, 0)])


def test_corrected_errors_are_emitted_once_a_minute_with_their_number() -> None:
    """None of them is left out."""
    counts = [3, 0, 5, 7, 0, None]

    emitted = seen(
        *[(at_ms, {"ecc_corrected": count}) for at_ms, count in zip(range(0, 90_000, 15_000), counts, strict=True)]
    )

    assert emitted == [
        (0, Happening("ecc", "info", "watch", "3 memory errors were corrected")),
        (60_000, Happening("ecc", "info", "watch", "12 memory errors were corrected")),
    ]


def test_errors_that_could_not_be_corrected_are_emitted_each_time() -> None:
    """They are rare, and each counts."""
    emitted = seen(*[(second, {"ecc_uncorrected": count}) for second, count in enumerate([1, 0, 2])])

    assert [(at_ms, event.severity, event.action, event.message) for at_ms, event in emitted] == [
        (0, "critical", "drain_and_reset", "1 memory errors that could not be corrected"),
        (2, "critical", "drain_and_reset", "2 memory errors that could not be corrected"),
    ]


@pytest.mark.parametrize(
    ("event_kinds", "left"),
    [
        ((), [("ecc", "critical"), ("ecc", "info"), ("recovery", "critical"), ("ecc", "warning")]),
        (("ecc",), [("recovery", "critical"), ("ecc", "warning")]),
        (("ecc", "recovery"), [("ecc", "warning")]),
    ],
)
def test_what_the_driver_reports_as_events_is_not_emitted_twice(
    event_kinds: tuple[str, ...], left: list[tuple[str, str]]
) -> None:
    """Everything else is: no event of the driver reports rows that wait."""
    fields: dict[str, int | None] = {
        "ecc_corrected": 1,
        "ecc_uncorrected": 1,
        "recovery_action": 2,
        "remapped_rows_pending": 1,
    }

    healthy: dict[str, int | None] = {"recovery_action": 0}

    emitted = seen((0, healthy), (1_000, fields), event_kinds=event_kinds)

    assert [(event.kind, event.severity) for _, event in emitted] == left


@pytest.mark.parametrize("event_kinds", [(), ("recovery",)])
def test_a_recovery_action_that_is_there_at_first_sight_is_emitted_once(event_kinds: tuple[str, ...]) -> None:
    """By whomever changes are reported: the driver has no event of what was there before it was asked for events."""
    samples: list[tuple[int, dict[str, int | None]]] = [
        (second, {"recovery_action": action}) for second, action in enumerate([None, 2, 2, None, 2])
    ]

    assert [(at_ms, event.code, event.action) for at_ms, event in seen(*samples, event_kinds=event_kinds)] == [
        (1, 2, "reboot_node")
    ]


def test_rows_of_memory_that_wait_or_fail_are_emitted_once() -> None:
    """Each time they begin to."""
    watch, emitted = Watch(), []
    for pending, failed in ((0, 0), (1, 0), (1, 1), (1, 1), (0, 1), (1, 1)):
        watch, events = observe(watch, 0, {"remapped_rows_pending": pending}, {REMAP_FAILED.key: failed})
        emitted.append([(event.kind, event.action) for event in events])

    assert emitted == [[], [("ecc", "reset_gpu")], [("ecc", "contact_vendor")], [], [], [("ecc", "reset_gpu")]]


def test_rows_of_memory_that_still_wait_are_emitted_again() -> None:
    """Before an alert of them is over; not once they are replaced. One that cannot be replaced as well."""
    watch, emitted = Watch(), []
    for minute in range(60, 190, 10):
        pending = None if minute % 20 else int(minute < 140)
        failed = {REMAP_FAILED.key: int(minute >= 140)}
        watch, events = observe(watch, minute * 60_000, {"remapped_rows_pending": pending}, failed)
        emitted += [(minute, event.severity, event.action) for event in events]

    assert emitted == [
        (60, "warning", "reset_gpu"),
        (100, "warning", "reset_gpu"),
        (140, "critical", "contact_vendor"),
        (170, "critical", "contact_vendor"),
    ]


def test_throttles_are_described_in_words_that_the_event_knows() -> None:
    """Kinds and actions are closed sets."""
    assert {throttle.fault.action for throttle in THROTTLES} <= set(ACTIONS)
    assert "clocks" in GPU_EVENT_KINDS
