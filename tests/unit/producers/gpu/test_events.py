from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pynvml
import pytest

from producers.collector import Identity
from producers.gpu.collector import REOPEN_S, GpuEvents
from producers.gpu.device import Found
from producers.gpu.events import ECC, EVENT_TYPES, REPEAT_MS, WANTED, EventSource, RateLimit, happening
from producers.gpu.library import DriverGoneError, GpuLostError
from producers.gpu.transitions import Happening
from schemas.codec.build import block_from_rows
from schemas.events.event_fields import ACTIONS, GPU_EVENT_KINDS
from schemas.events.machine_events import GPU_EVENTS
from tests.fake_nvml import Error, FakeGpu, FakeNvml, gpus_of, installed, mig
from tests.unit.producers.gpu.conftest import LABELS
from tests.virtual_clock import VirtualClock

XID = pynvml.nvmlEventTypeXidCriticalError
DBE = pynvml.nvmlEventTypeDoubleBitEccError
NOW_MS = 1_000_000
FAULT = Happening("xid", "critical", "reboot_node", "the GPU has fallen off the bus", 79)

ONE, TWO = (Found(f"GPU-{number}", None, None, number) for number in (1, 2))


@pytest.fixture
def library() -> Iterator[FakeNvml]:
    """Two GPUs: the first reports memory errors too."""
    gpus = gpus_of("mock_h100", 2)
    gpus[0].calls["nvmlDeviceGetSupportedEventTypes"] = XID | ECC | pynvml.nvmlEventTypeClock
    with ExitStack() as stack:
        yield stack.enter_context(installed(FakeNvml(gpus)))


def source() -> EventSource:
    return EventSource(LABELS, {"GPU-00000001": {"engine_id": "engine-7"}})


def waited(events: EventSource, at_ms: int = NOW_MS) -> list[tuple[str, str, int | None]]:
    return [(row["gpu_uuid"], row["kind"], row.get("code")) for row in events.wait(0, lambda: at_ms)]


def test_an_xid_is_a_row_with_meaning_and_action(library: FakeNvml) -> None:
    """Of the GPU that had it, with where that belongs."""
    events = source()
    library.events.put((library.gpus[1], XID, 79))

    rows = events.wait(0, lambda: NOW_MS)

    assert rows == [
        {
            "at_ms": NOW_MS,
            "origin": "measured",
            "gpu_uuid": "GPU-00000001",
            "gpu_model": "NVIDIA H100 80GB HBM3",
            **LABELS,
            "engine_id": "engine-7",
            "kind": "xid",
            "severity": "critical",
            "action": "reboot_node",
            "message": "the GPU has fallen off the bus",
            "code": 79,
        }
    ]
    assert block_from_rows(GPU_EVENTS.fields, rows).rows == 1


def test_what_waits_is_taken_together(library: FakeNvml) -> None:
    """In order; then there is nothing more."""
    events = source()
    for gpu, type_bit, data in ((0, XID, 48), (0, DBE, 0), (1, XID, 31)):
        library.events.put((library.gpus[gpu], type_bit, data))

    assert waited(events) == [
        ("GPU-00000000", "xid", 48),
        ("GPU-00000000", "ecc", None),
        ("GPU-00000001", "xid", 31),
    ]
    assert waited(events) == []


@pytest.mark.parametrize(
    ("code", "error"),
    [(pynvml.NVML_ERROR_GPU_IS_LOST, GpuLostError), (pynvml.NVML_ERROR_UNINITIALIZED, DriverGoneError)],
)
def test_what_happened_before_a_gpu_was_lost_is_returned_first(
    library: FakeNvml, code: int, error: type[Exception]
) -> None:
    """Its last words say why: they come first, and what was held back with them; the wait after raises."""
    events = source()
    for put in ((library.gpus[0], XID, 31), (library.gpus[0], XID, 31), (library.gpus[1], XID, 79), code):
        library.events.put(put)

    assert waited(events) == [("GPU-00000000", "xid", 31), ("GPU-00000001", "xid", 79)]
    library.events.put(code)
    assert waited(events, NOW_MS + REPEAT_MS) == [("GPU-00000000", "xid", 31)]
    library.events.put(code)
    with pytest.raises(error):
        events.wait(0, lambda: NOW_MS + REPEAT_MS)


def test_types_that_a_gpu_does_not_have_are_not_registered(library: FakeNvml) -> None:
    """Nor clocks, of which there are too many; which GPUs report memory errors is known."""
    events = source()

    assert [events.event_kinds(uuid) for uuid in ("GPU-00000000", "GPU-00000001", "GPU-unknown")] == [
        {"ecc"},
        set(),
        set(),
    ]
    assert pynvml.nvmlEventTypeClock & WANTED == pynvml.nvmlEventTypePState & WANTED == 0
    assert events.active
    assert events.current()


def test_an_event_of_nobody_is_left_out(library: FakeNvml) -> None:
    """A type that was not registered."""
    events = source()
    library.events.put((library.gpus[0], pynvml.nvmlEventTypePState, 2))

    assert waited(events) == []


def test_every_type_has_a_meaning() -> None:
    """In words that the event knows."""
    for each in EVENT_TYPES:
        event = happening(each.bit, 1)

        assert event is not None, each
        assert event.kind in GPU_EVENT_KINDS, each
        assert event.action in ACTIONS, each
        assert event.message, each


def test_what_repeats_is_emitted_once_a_second_with_its_number() -> None:
    """By GPU and by what it is; nothing is suppressed for ever."""
    limit = RateLimit()

    admitted = [limit.admit(ONE, FAULT, at_ms) for at_ms in (0, 1, REPEAT_MS - 1)]
    other = limit.admit(TWO, FAULT, 2)
    early = limit.overdue(REPEAT_MS - 1)
    due = limit.overdue(REPEAT_MS)
    done = limit.overdue(REPEAT_MS * 3)
    again = limit.admit(ONE, FAULT, REPEAT_MS * 3)

    assert admitted == [FAULT, None, None]
    assert other == FAULT
    assert early == []
    assert [(device, event.message, event.code) for device, event in due] == [
        (ONE, "the GPU has fallen off the bus (1 more since)", 79)
    ]
    assert done == []
    assert again == FAULT


def test_what_was_held_back_comes_with_the_next_wait(library: FakeNvml) -> None:
    """Even when nothing else happens."""
    events = source()
    for _ in range(3):
        library.events.put((library.gpus[0], XID, 31))

    assert len(waited(events)) == 1
    assert waited(events, NOW_MS + REPEAT_MS - 1) == []
    assert waited(events, NOW_MS + REPEAT_MS) == [("GPU-00000000", "xid", 31)]
    assert waited(events, NOW_MS + 5 * REPEAT_MS) == []


def test_while_something_is_held_back_a_wait_is_short(library: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is to be emitted after a second, however long the caller would wait."""
    events, timeouts = source(), list[int]()

    def nothing(timeout_ms: int) -> None:
        timeouts.append(timeout_ms)

    for _ in range(2):
        library.events.put((library.gpus[0], XID, 31))
    waited(events)
    monkeypatch.setattr(events, "_next", nothing)
    for at_ms in (NOW_MS, NOW_MS + REPEAT_MS, NOW_MS + REPEAT_MS):
        events.wait(7.5, lambda at_ms=at_ms: at_ms)  # type: ignore[misc]

    assert timeouts == [REPEAT_MS, 0, 7_500]


def test_a_clock_set_back_holds_nothing_back() -> None:
    """What was emitted in the future is emitted again."""
    limit = RateLimit()
    limit.admit(ONE, FAULT, 1_000_000)

    assert limit.admit(ONE, FAULT, 5_000) == FAULT


def events_of(clock: VirtualClock) -> GpuEvents:
    return GpuEvents(Identity(LABELS, {}), clock)


def test_the_agent_gets_rows_of_the_event_at_once(library: FakeNvml) -> None:
    """And nothing when nothing happened."""
    events = events_of(VirtualClock(NOW_MS))
    assert events.wait(0) == []
    library.events.put((library.gpus[0], XID, 13))

    (collected,) = events.wait(30)

    assert collected.event is GPU_EVENTS
    assert [(row["at_ms"], row["code"]) for row in collected.rows] == [(NOW_MS, 13)]


@pytest.mark.parametrize(
    ("code", "kinds"),
    [(pynvml.NVML_ERROR_UNINITIALIZED, frozenset()), (pynvml.NVML_ERROR_GPU_IS_LOST, frozenset({"ecc"}))],
)
def test_a_source_that_broke_is_made_anew(library: FakeNvml, code: int, kinds: frozenset[str]) -> None:
    """By the wait after, or at once where the driver is still there; it reports what happens from then on."""
    events = events_of(VirtualClock(NOW_MS))
    library.events.put(code)

    broken = events.wait(0)
    kinds_meanwhile = events.event_kinds("GPU-00000000")
    library.events.put((library.gpus[0], XID, 13))
    healed = events.wait(0)

    assert (broken, kinds_meanwhile) == ([], kinds)
    assert [row["code"] for row in healed[0].rows] == [13]
    assert library.calls["nvmlEventSetCreate"] == 2
    assert library.calls["nvmlEventSetFree"] == 1


def test_a_lost_gpu_costs_the_others_no_event(library: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another set takes over before the one that broke is freed, without a rest; where that breaks too there is one."""
    events, rests = events_of(VirtualClock(NOW_MS)), list[float]()
    events.wait(0)
    monkeypatch.setattr(events._idle, "wait", rests.append)
    for put in (pynvml.NVML_ERROR_GPU_IS_LOST, (library.gpus[1], XID, 94)):
        library.events.put(put)

    (collected,) = events.wait(5)
    events.wait(0)
    rested = [*rests]
    library.events.put(pynvml.NVML_ERROR_GPU_IS_LOST)
    for _ in range(2):
        events.wait(5)
        library.events.put(pynvml.NVML_ERROR_GPU_IS_LOST)

    assert [(row["gpu_uuid"], row["code"]) for row in collected.rows] == [(library.gpus[1].uuid, 94)]
    assert (rested, rests) == ([], [5])


def test_without_a_driver_there_is_nothing_until_there_is_one(library: FakeNvml) -> None:
    """It is tried again at each wait."""
    events = events_of(VirtualClock(NOW_MS))
    library.init = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    without = events.wait(0)
    library.init = 0
    library.events.put((library.gpus[0], XID, 13))

    events.wait(0)

    assert without == []
    assert library.calls["nvmlEventSetCreate"] == 1


def test_a_gpu_that_could_not_be_registered_is_registered_after_a_minute(library: FakeNvml) -> None:
    """The others report meanwhile."""
    clock = VirtualClock(NOW_MS)
    events = events_of(clock)
    lost = library.gpus[0]
    assert isinstance(lost, FakeGpu)
    lost.calls["nvmlDeviceGetSupportedEventTypes"] = Error(pynvml.NVML_ERROR_GPU_IS_LOST)

    events.wait(0)
    lost.calls["nvmlDeviceGetSupportedEventTypes"] = XID | ECC
    early = events.event_kinds(lost.uuid)
    clock.advance(round(REOPEN_S * 1_000))
    events.wait(0)

    assert (early, events.event_kinds(lost.uuid)) == (set(), {"ecc"})


@pytest.mark.parametrize("named", [True, False])
def test_a_gpu_that_stays_dead_costs_the_others_no_event(library: FakeNvml, named: bool) -> None:
    """What is registered stays, whether the dead one can be named or not."""
    clock = VirtualClock(NOW_MS)
    events, dead = events_of(clock), library.gpus[0]
    assert isinstance(dead, FakeGpu)
    if named:
        dead.calls["nvmlDeviceGetSupportedEventTypes"] = Error(pynvml.NVML_ERROR_GPU_IS_LOST)
    else:
        dead.lost = pynvml.NVML_ERROR_GPU_IS_LOST
    codes = []
    for code in (13, 31, 43):
        library.events.put((library.gpus[1], XID, code))
        codes += [row["code"] for collected in events.wait(0) for row in collected.rows]
        clock.advance(round(REOPEN_S * 1_000))

    assert codes == [13, 31, 43]
    assert (library.calls["nvmlEventSetCreate"], library.calls["nvmlEventSetFree"]) == (1, 0)


def test_a_source_is_closed_when_there_is_another(library: FakeNvml) -> None:
    """Until then it records; what it held back comes with its number."""
    clock = VirtualClock(NOW_MS)
    events, added, freed = events_of(clock), library.gpus.pop(), list[int]()
    for _ in range(3):
        library.events.put((library.gpus[0], XID, 31))
    events.wait(0)

    def types() -> int:
        freed.append(library.calls["nvmlEventSetFree"])
        return int(XID)

    added.calls["nvmlDeviceGetSupportedEventTypes"] = types
    library.gpus.append(added)
    clock.advance(round(REOPEN_S * 1_000))
    (collected,) = events.wait(0)

    assert [row["message"] for row in collected.rows] == [
        "page fault in GPU memory, most often an illegal address (1 more since)"
    ]
    assert freed == [0]
    assert (library.calls["nvmlEventSetCreate"], library.calls["nvmlEventSetFree"]) == (2, 1)


def test_what_a_broken_source_held_back_comes_with_the_next(library: FakeNvml) -> None:
    """A GPU that is lost meanwhile hides no number."""
    clock = VirtualClock(NOW_MS)
    events = events_of(clock)
    for _ in range(2):
        library.events.put((library.gpus[0], XID, 31))
    events.wait(0)
    library.events.put(pynvml.NVML_ERROR_GPU_IS_LOST)
    events.wait(0)
    clock.advance(REPEAT_MS)

    (collected,) = events.wait(0)

    assert [row["code"] for row in collected.rows] == [31]


def test_a_gpu_that_was_added_is_registered_too(library: FakeNvml) -> None:
    """Within a minute."""
    clock = VirtualClock(NOW_MS)
    events = events_of(clock)
    added = library.gpus.pop()
    events.wait(0)
    library.gpus.append(added)

    clock.advance(round(REOPEN_S * 1_000) - 1)
    events.wait(0)
    early = library.calls["nvmlEventSetCreate"]
    clock.advance(1)
    library.events.put((added, XID, 13))
    (collected,) = events.wait(0)

    assert early == 1
    assert [row["gpu_uuid"] for row in collected.rows] == [added.uuid]


def test_a_gpu_that_hangs_costs_the_others_no_event(library: FakeNvml) -> None:
    """It is listed again once a minute; when the call has returned it is registered too."""
    hangs, fine, clock = library.gpus[0], library.gpus[1], VirtualClock(NOW_MS)
    assert isinstance(hangs, FakeGpu)
    release = hangs.hangs = threading.Event()
    events = GpuEvents(Identity(LABELS, {}), clock, limit_s=0.3)
    codes = []
    for code in (13, 31):
        library.events.put((fine, XID, code))
        codes += [row["code"] for collected in events.wait(0) for row in collected.rows]
        clock.advance(round(REOPEN_S * 1_000))
    sets, hangs.hangs = library.calls["nvmlEventSetCreate"], None
    release.set()
    while not events.event_kinds(hangs.uuid):
        events.wait(0)
        clock.advance(round(REOPEN_S * 1_000))
    events.close()

    assert (codes, sets) == ([13, 31], 1)


def test_a_set_in_which_a_call_hangs_is_not_freed(library: FakeNvml) -> None:
    """The driver still works with it."""
    release, clock, hangs = threading.Event(), VirtualClock(NOW_MS), library.gpus[0]

    def hang() -> int:
        release.wait(30)
        return int(XID | ECC)

    hangs.calls["nvmlDeviceGetSupportedEventTypes"] = hang
    events = GpuEvents(Identity(LABELS, {}), clock, limit_s=0.3)
    library.events.put((library.gpus[1], XID, 13))
    (collected,) = events.wait(0)
    release.set()
    while not events.event_kinds(hangs.uuid):
        clock.advance(round(REOPEN_S * 1_000))
        events.wait(0)
    freed = library.calls["nvmlEventSetFree"]
    events.close()

    assert [row["code"] for row in collected.rows] == [13]
    assert (freed, library.calls["nvmlEventSetFree"]) == (0, 1)


def test_an_xid_of_an_instance_names_the_instance(library: FakeNvml) -> None:
    """The application on it, and its tenant, are found by that; an unknown instance names the GPU."""
    whole = library.gpus[0]
    assert isinstance(whole, FakeGpu)
    mig(whole, "1g.10gb", "2g.20gb")
    events = source()
    for gpu in (whole.instances[1], whole):
        library.events.put((gpu, XID, 31))

    rows = events.wait(0, lambda: NOW_MS)

    assert [(row["gpu_uuid"], row.get("parent_uuid"), row.get("mig_profile")) for row in rows] == [
        ("MIG-00000000-1", whole.uuid, "2g.20gb"),
        (whole.uuid, None, None),
    ]


def test_an_instance_that_is_newer_than_the_list_is_looked_for(library: FakeNvml) -> None:
    """Once; a number that nobody has is the GPU's."""
    whole = library.gpus[0]
    assert isinstance(whole, FakeGpu)
    events = source()
    mig(whole, "1g.10gb")
    nobody = FakeGpu("MIG-nobody", {}, instance_id=99)
    library.events.put((whole.instances[0], XID, 31))
    seen = [row["gpu_uuid"] for row in events.wait(0, lambda: NOW_MS)]
    whole.instances.append(nobody)
    nobody.lost = pynvml.NVML_ERROR_NOT_FOUND
    for code in (31, 43):
        library.events.put((nobody, XID, code))
    whole.called.clear()
    seen += [row["gpu_uuid"] for row in events.wait(0, lambda: NOW_MS)]

    assert seen == ["MIG-00000000-0", whole.uuid, whole.uuid]
    assert whole.called.count("nvmlDeviceGetMigMode") == 1


def test_a_number_that_another_instance_got_is_its_within_a_minute(library: FakeNvml) -> None:
    """After a new layout; where it cannot be listed, those known stay."""
    whole, clock, seen = library.gpus[0], VirtualClock(NOW_MS), []
    assert isinstance(whole, FakeGpu)
    mig(whole, "1g.10gb")
    mode, failing = whole.calls["nvmlDeviceGetMigMode"], Error(pynvml.NVML_ERROR_UNKNOWN)
    events = events_of(clock)
    events.wait(0)
    whole.instances[0] = FakeGpu("MIG-other", whole.instances[0].calls, instance_id=whole.instances[0].instance_id)
    for answer in (failing, mode):
        whole.calls["nvmlDeviceGetMigMode"] = answer
        clock.advance(round(REOPEN_S * 1_000))
        library.events.put((whole.instances[0], XID, 31))
        seen += [row["gpu_uuid"] for collected in events.wait(0) for row in collected.rows]

    assert seen == ["MIG-00000000-0", "MIG-other"]
    assert library.calls["nvmlEventSetCreate"] == 1


def test_gpus_that_tell_nothing_are_not_waited_for(library: FakeNvml) -> None:
    """Most consumer cards: the time passes, and that is all."""
    for gpu in library.gpus:
        gpu.calls["nvmlDeviceGetSupportedEventTypes"] = 0
    events = events_of(VirtualClock(NOW_MS))

    assert events.wait(0) == []
    assert library.calls["nvmlEventSetWait_v2"] == 0
    events.close()
    events.close()
    assert library.calls["nvmlEventSetFree"] == 1
