"""What a drill pastes, which drills run, and when one is good.

Covers lab.drills.stand and lab.drills.faults.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from fleetpulse.reconcile.compare import Difference, Report, TopicBooks
from fleetpulse.services.processes import Command
from lab.chaos.disk_shim import compile_library
from lab.chaos.stage import faults as stage_faults
from lab.drills import faults, run
from lab.drills.faults import DRILLS, Drill
from lab.drills.outcome import Mended, Outcome
from lab.drills.run import CHANNELS, _mend, _mend_all, _small_disks, advice, chosen, unwatched
from lab.drills.stand import FAULT_EVERY_S, GPUS, PAGE, Stand
from lab.drills.watch import Sign
from runtime.runbook import Cause
from schemas.errors import ConfigError, FleetpulseError

TEXT = """
### Process not running

Text.

```
fleetpulse jobs windows --name worker-0
fleetpulse sink
```

### Kafka unavailable

No line.

## End
"""
EXACT = Report((TopicBooks("llm.requests", *[5] * 8),), 12, ())
WRONG = Report(EXACT.topics, 12, (Difference("a", "b", 1, 2),))
MENDED = Mended(("fleetpulse sink",), 9.0)
GOOD = Outcome("sink gone", Cause.PROCESS, EXACT, MENDED, signs={"doctor": Sign(3.0, "x")})
LAG = {"page": {Cause.LAG: Sign(20.4, "lag of window.finals")}}


def test_lines_of_the_causes_own_section_are_pasted() -> None:
    """All of them, or those that hold a word; a section without any is a mistake of the runbook."""
    assert advice(Cause.PROCESS, None, TEXT) == ("fleetpulse jobs windows --name worker-0", "fleetpulse sink")
    assert advice(Cause.PROCESS, ("sink",), TEXT) == ("fleetpulse sink",)
    with pytest.raises(FleetpulseError, match="Kafka unavailable"):
        advice(Cause.KAFKA, None, TEXT)
    with pytest.raises(FleetpulseError, match="nothing to paste"):
        advice(Cause.PROCESS, ("deliver",), TEXT)


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_the_runbook_has_something_to_paste_for_every_drill(drill: Drill) -> None:
    """As it stands in docs/, and every channel that is waited for is one that is watched; where nothing is wrong none
    is."""
    assert drill.cause is None or advice(drill.cause, drill.paste, PAGE.read_text())
    assert drill.signs.keys() <= set(CHANNELS)
    assert drill.cause in drill.signs.values() or (drill.cause, drill.signs) == (None, {})


@pytest.mark.parametrize("code", [0, 32])
def test_small_disks_are_there_while_a_drill_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Mounted before the stack comes up, taken away at the end; who may not mount is told."""
    ran: list[list[str]] = []

    def run(words: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        ran.append([words[0], words[-1]])
        return subprocess.CompletedProcess(words, code, "", "permission denied")

    monkeypatch.setattr(subprocess, "run", run)
    folder = str(tmp_path / "kafka")
    with (
        pytest.raises(FleetpulseError, match="right to mount one: permission denied") if code else nullcontext(),
        _small_disks(tmp_path, {"kafka"}),
    ):
        ran.append(["inside"])

    assert ran == ([["mount", folder]] if code else [["mount", folder], ["inside"], ["umount", folder]])


def test_drills_are_chosen_by_the_beginning_of_their_names() -> None:
    """All without any; a name of none says which there are."""
    assert [drill.name for drill in chosen(["sink"])] == ["sink gone"]
    assert chosen([]) == list(DRILLS)
    with pytest.raises(ConfigError, match="windows job gone"):
        chosen(["nothing"])


@pytest.mark.parametrize(
    ("differing", "good"),
    [
        ({}, True),
        ({"silent": ("log",)}, False),
        ({"mended": Mended()}, False),
        ({"books": WRONG}, False),
        ({"books": Report((), 12, ())}, False),
        ({"others": LAG}, False),
        ({"others": LAG, "consequences": frozenset({Cause.LAG})}, True),
        ({"others": {"doctor": {Cause.PART: Sign(1.0, "x")}}, "mended": replace(MENDED, left=Cause.PART)}, True),
        ({"overdue": True}, False),
        ({"ended": {"sink": 1}}, False),
        ({"mended": replace(MENDED, failed=("fleetpulse sink (exit 2)",))}, False),
        ({"unproven": ("alert",)}, True),
        ({"cause": None, "signs": {}, "blind": ("page",)}, False),
        ({"cause": None, "signs": {}}, True),
        ({"cause": None, "signs": {}, "others": LAG}, False),
    ],
)
def test_a_drill_is_good_when_all_three_hold(differing: dict[str, Any], good: bool) -> None:
    """Seen on every channel, mended by the advice, books exact and not empty."""
    found = replace(GOOD, **differing)

    assert (found.good, found.as_dict()["good"]) == (good, good)


def test_where_nobody_may_name_a_cause_every_channel_has_to_be_watched() -> None:
    """Else nothing said proves nothing; of a fault those count that have to show it."""
    calm = next(drill for drill in DRILLS if drill.cause is None)
    gone = next(drill for drill in DRILLS if drill.name == "sink gone")
    without, with_one = (cast(Any, SimpleNamespace(prometheus=port)) for port in (None, 9090))
    never = cast(Any, SimpleNamespace(looked={"log", "readyz", "doctor"}, seen={}))
    all_of_them = cast(Any, SimpleNamespace(looked={*CHANNELS}, seen={}))

    assert unwatched(without, calm, never) == (("alert",), ("page",))
    assert unwatched(with_one, calm, never) == ((), ("alert", "page"))
    assert unwatched(with_one, calm, all_of_them) == ((), ())
    assert unwatched(with_one, gone, cast(Any, SimpleNamespace(looked={"doctor"}, seen=dict.fromkeys(gone.signs)))) == (
        (),
        (),
    )


def test_an_alert_that_was_pending_when_prometheus_fell_silent_is_not_known_to_have_fired() -> None:
    """Nor not to have; where it went on answering, it is known."""
    gone = next(drill for drill in DRILLS if drill.name == "sink gone")
    seen = dict.fromkeys(gone.signs, Sign(15.0, "pending FleetpulseProcessDown: process not running"))
    stand = cast(Any, SimpleNamespace(prometheus=9090))

    def blind(looked: set[str], lasted_s: float) -> tuple[str, ...]:
        watch = SimpleNamespace(looked=looked, seen=seen, firing_s=None, lasted_s=lasted_s)
        return unwatched(stand, gone, cast(Any, watch))[1]

    assert [blind(set(), 120.0), blind(set(), 70.0), blind({"alert"}, 120.0)] == [("alert",), (), ()]


def test_a_drill_in_a_line() -> None:
    """Where it was seen and where not, how it was mended, and the books."""
    assert GOOD.text() == "sink gone: Process not running, seen: doctor 3 s; mended in 9 s; books exact"
    assert replace(GOOD, signs={}, silent=("log",), mended=Mended(), books=WRONG).text() == (
        "sink gone: Process not running, seen: nowhere; silent: log; not mended; books NOT exact"
    )


def test_an_alert_that_is_only_pending_and_what_was_not_watched_are_said() -> None:
    """As are causes that nothing explains, lines that failed, and services that ended beside the fault."""
    pending = replace(GOOD, signs={"alert": Sign(12.0, "pending A: x")})
    firing = replace(pending, firing_s=43.0)
    bad = replace(GOOD, others=LAG, mended=replace(MENDED, failed=("df -h (exit 1)",)), overdue=True)

    assert (pending.when("alert"), firing.when("alert"), firing.when("log")) == ("12 s (pending)", "12 s", "")
    assert "seen: alert 12 s (pending);" in pending.text()
    assert replace(GOOD, unproven=("alert",)).verdict == "good; not proven: alert"
    assert bad.verdict == "alert does not fire; also named: Consumer lag grows; failed: df -h (exit 1)"
    assert bad.text().splitlines()[1:] == ["  Consumer lag grows by page 20 s: lag of window.finals"]
    assert (GOOD.verdict, replace(GOOD, mended=Mended()).verdict) == ("good", "WRONG")
    assert replace(GOOD, ended={"deliver": 1, "sink": 2}).verdict == (
        "ended beside the fault: deliver (1); ended beside the fault: sink (2)"
    )


@pytest.mark.parametrize(
    ("firing_s", "lasted_s", "overdue"),
    [(80.0, 120.0, False), (None, 70.0, False), (None, 120.0, True), (110.0, 120.0, True)],
    ids=["fires", "too short to say", "never fires", "fires too late"],
)
def test_an_alert_has_to_fire_when_its_rule_says(firing_s: float | None, lasted_s: float, overdue: bool) -> None:
    """Of a process that is gone after a minute; a rule without a time fires at once."""
    sign = Sign(15.0, "pending FleetpulseProcessDown: process not running")
    watch = SimpleNamespace(seen={"alert": sign}, firing_s=firing_s, lasted_s=lasted_s)

    assert run.is_overdue(cast(Any, watch)) == overdue
    assert not run.is_overdue(cast(Any, SimpleNamespace(seen={})))
    assert (run.pending_s("FleetpulseKafkaSlow"), run.pending_s("FleetpulseJobRestarts")) == (60.0, 0.0)


def test_a_pasted_line_that_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that goes on does not, nor a check that answers that something is wrong, nor what cannot work here."""

    class Ended:
        def __init__(self, code: int | None) -> None:
            self.code = code

        def poll(self) -> int | None:
            return self.code

        def wait(self, _within_s: float) -> int:
            if self.code is None:
                raise subprocess.TimeoutExpired("x", _within_s)
            return self.code

    codes = {
        "fleetpulse doctor": 1,
        "timedatectl set-ntp true": 1,
        "fleetpulse up": 2,
        "fleetpulse sink": None,
        "df -h": 0,
    }
    stand = SimpleNamespace(
        run=lambda line, _typed: Ended(codes[line]), pasted=[], until=lambda *_of: None, config=None
    )
    drill = replace(next(iter(DRILLS)), fails=("timedatectl",))
    monkeypatch.setattr(run, "advice", lambda *_of: tuple(codes))

    mended = _mend(cast(Any, stand), drill, lambda _text: None)

    assert mended == Mended(tuple(codes), mended.within_s, ("fleetpulse up (exit 2)",))
    assert mended.within_s is not None


def test_what_only_log_and_alert_show_is_mended_when_the_alert_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor and /readyz never name it: that they do not says nothing."""
    gpu = next(drill for drill in DRILLS if drill.cause is Cause.GPU)
    for name in ("verdicts", "findings", "alert_texts"):
        monkeypatch.setattr(run, name, lambda _stand: [])
    counted = [str(Cause.GPU)]
    monkeypatch.setattr(run, "causes_counted", lambda _stand: list(counted))

    assert run._shows(cast(Any, None), gpu)
    counted.clear()
    assert not run._shows(cast(Any, None), gpu)


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_who_may_end_by_a_fault_is_a_service_of_the_stand(drill: Drill, tmp_path: Path) -> None:
    """By its name, and never all of them; a process that is shown as not running where another cause is has ended."""
    services = set(Stand(tmp_path, cast(Any, None), cast(Any, None), 1).parts())

    assert drill.ends < services
    assert drill.ends or Cause.PROCESS not in drill.signs.values() or drill.cause is Cause.PROCESS


def test_services_that_end_beside_the_fault_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From when a drill waits for its beginning until its books are settled; not those of the drill before, nor those
    that the fault is meant to end."""
    started = iter([["sink"], ["jobs-alerts", "deliver"], ["sink"], ["jobs-alerts"], ["producer"]])
    config = SimpleNamespace(kafka=None, clickhouse=None)
    stand = Stand(tmp_path, cast(Any, config), cast(Any, SimpleNamespace(tend=lambda: next(started))), 1)
    stand.ended["jobs-costs"] = 3
    watch = SimpleNamespace(begin=lambda: None, end=lambda: None, seen={}, looked=set(), firing_s=None, others={})

    def reconciled(_kafka: object, _clickhouse: object, *, wait_s: float, while_waiting: Callable[[], None]) -> Report:
        while_waiting()
        return EXACT

    def compared(books: Report, _config: object, _since_ms: int, _s: float, tend: Callable[[], None]) -> Report:
        tend()
        return books

    monkeypatch.setattr(run, "Watch", lambda *_of: watch)
    monkeypatch.setattr(run, "_clear", lambda stand, _drill: stand.pass_time(0.0))
    monkeypatch.setattr(run, "_mend_all", lambda *_of: MENDED)
    monkeypatch.setattr(Stand, "restore", lambda _self: None)
    monkeypatch.setattr(run, "reconcile", reconciled)
    monkeypatch.setattr(run, "with_finals", compared)
    monkeypatch.setattr(run, "_opened", lambda *_of: ())
    drill = Drill("rules", Cause.SETTING, lambda stand: stand.pass_time(0.0), {}, ends=frozenset({"jobs-alerts"}))

    found = run._drill(stand, drill, 0.0, 0.0, lambda _text: None)

    assert found.ended == {"deliver": 1, "producer": 1, "sink": 2}
    assert (found.mended, found.books, found.good) == (MENDED, EXACT, False)
    assert found.as_dict()["ended"] == found.ended


def test_a_drill_that_fails_ends_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is shown nowhere, and its books were not compared; the stack is restored before the next, as far as it
    can be."""
    began: list[str] = []

    class Unwell(Calm):
        def restore(self) -> None:
            began.append("restored")
            raise FleetpulseError("not within 300 s")

        def begin(self) -> None:
            """All is up."""

        end = begin

    def drill(_stand: object, one: Drill, *_others: object) -> Outcome:
        began.append(one.name)
        if one.name == "sink gone":
            raise FleetpulseError("not within 300 s")
        return GOOD

    monkeypatch.setattr(run, "_drill", drill)
    monkeypatch.setattr(run, "Stand", lambda *_of: Unwell(lambda: True))
    monkeypatch.setattr(run, "bring_up", lambda *_of: None)
    monkeypatch.setattr("fleetpulse.stack.down", lambda _folder: None)
    found = run._on_a_stand(tmp_path, 1, chosen(["sink", "poison"]), None, 60.0, lambda _text: None)

    assert began == ["sink gone", "restored", "poison record"]
    assert [(one.good, one.compared) for one in found] == [(False, "NOT compared"), (True, "exact")]


def test_a_foreign_client_sends_what_a_producer_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tenant once, all of one host: in one partition."""
    sent: list[tuple[int, int]] = []

    class Producer:
        async def send(self, topic: str, value: bytes, *, partition: int, headers: Any) -> None:
            assert DefaultRecordBatchBuilder.estimate_size_in_bytes(None, value, headers) > len(value)
            sent.append((partition, value.count(b"tenant")))

        async def flush(self) -> None:
            """All is sent."""

    @asynccontextmanager
    async def producer(_client: object) -> Any:
        yield Producer()

    monkeypatch.setattr(faults, "make_producer", lambda _kafka: None)
    monkeypatch.setattr(faults, "started", producer)
    faults._tenants(2 * faults.ROWS)(cast(Any, Calm(lambda: True)))

    assert sent == [(0, faults.ROWS)] * 2


class Calm:
    """In a stand's place: what ``until`` waits for comes true, or never."""

    config = cast(Any, type("Config", (), {"kafka": None}))

    def __init__(self, holds: Callable[[], bool]) -> None:
        self.holds = holds

    def until(self, _holds: Callable[[], bool], _within_s: float, what: str) -> None:
        if not self.holds():
            raise FleetpulseError(what)


def test_what_passed_by_itself_was_not_mended() -> None:
    """Neither doctor nor /readyz names it any more before the first line is pasted: nothing is, and no time is said."""
    slow = next(drill for drill in DRILLS if drill.cause is Cause.SLOW)

    assert _mend(cast(Any, Calm(lambda: False)), slow, lambda _text: None) == Mended()


@pytest.mark.parametrize(
    ("mended", "found"),
    [
        ({"Disk full": 9.0}, Mended(("Disk full",), 9.0)),
        (
            {"Disk full": 9.0, "ClickHouse part broken": 20.0},
            Mended(("Disk full", "ClickHouse part broken"), 29.0, left=Cause.PART),
        ),
        (
            {"Disk full": 9.0, "ClickHouse part broken": None},
            Mended(("Disk full", "ClickHouse part broken"), None, left=Cause.PART),
        ),
        ({"Disk full": None, "ClickHouse part broken": 20.0}, Mended(("Disk full",))),
    ],
    ids=["nothing is left", "what is left is mended", "what is left stays", "the fault itself stays"],
)
def test_what_a_fault_leaves_behind_is_mended_as_its_own_section_says(
    monkeypatch: pytest.MonkeyPatch, mended: dict[str, float | None], found: Mended
) -> None:
    """Once the fault is, and only where it is shown; the time is that of both."""

    def mend(_stand: object, drill: Drill, _say: object) -> Mended:
        cause = str(drill.cause)
        return Mended((cause,), mended[cause]) if cause in mended else Mended()

    monkeypatch.setattr(run, "_mend", mend)
    disk = next(drill for drill in DRILLS if drill.cause is Cause.DISK)

    assert _mend_all(cast(Any, None), disk, lambda _text: None) == found


def test_what_was_left_behind_is_said() -> None:
    """Beside how long both took."""
    left = replace(GOOD, mended=replace(MENDED, left=Cause.PART))

    assert "mended in 9 s, with what it left: ClickHouse part broken; books" in left.text()
    assert (left.as_dict()["left"], left.good) == (Cause.PART, True)


def test_the_driver_of_the_drill_turns_the_binding_away(tmp_path: Path) -> None:
    """By the function that it calls: one that is missing would be a driver that is too old."""
    compile_library(faults._NO_PERMISSION, tmp_path, "driver").rename(tmp_path / "libnvidia-ml.so.1")
    done = subprocess.run(
        [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"],
        env={"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "NVMLError_NoPermission" in done.stderr


def test_the_driver_of_the_drill_is_unloaded_where_there_is_its_file(tmp_path: Path) -> None:
    """Nobody is turned away then, in the process that was before, too."""
    compile_library(faults._NO_PERMISSION, tmp_path, "driver").rename(tmp_path / "libnvidia-ml.so.1")
    (tmp_path / "unloaded").touch()
    done = subprocess.run(
        [sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"],
        env={"LD_LIBRARY_PATH": str(tmp_path), "DRIVER_UNLOADED": str(tmp_path / "unloaded")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "NVMLError_DriverNotLoaded" in done.stderr


def test_what_is_started_beside_is_scraped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the port that it is given."""
    started: list[Command] = []
    (tmp_path / "prometheus").mkdir()
    monkeypatch.setattr("lab.drills.stand.free_port", lambda: 4711)
    there = Stand(tmp_path, cast(Any, None), cast(Any, SimpleNamespace(start=started.append)), 1, ports={"sink": 1})
    there._webhook = cast(Any, SimpleNamespace(port=2))

    there.start_beside("agent", "agent")

    assert started[0].arguments == ("agent", "--health-port", "4711")
    assert json.loads(there._targets.read_text()) == [{"targets": ["127.0.0.1:1", "127.0.0.1:4711"]}]


def test_a_lost_gpu_is_found_before_the_next_is_lost() -> None:
    """So that alerts open and resolve as long as drills last, and one may be refused."""
    lost = stage_faults(FAULT_EVERY_S, GPUS - 1)

    assert all(one["to_s"] < other["from_s"] for one, other in pairwise(lost))


@pytest.mark.parametrize(
    ("text", "waits", "ends"),
    [
        ("pending A: process not running", ["Process not running is no finding"], False),
        ("firing A: process not running", ["no alert names Process not running"], True),
        ("firing B: Consumer lag grows", [], True),
    ],
)
def test_a_drill_waits_for_alerts_of_its_cause(
    text: str, waits: list[str], ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pending one would be taken for one that went on before; what fires is over soon, or looks back for long."""
    (drill,) = run.chosen(["windows job gone"])
    monkeypatch.setattr(run, "alert_texts", lambda _stand: [text])
    monkeypatch.setattr(run, "_shows", lambda *_of: False)
    waited: list[str] = []

    class Waiting(Calm):
        def until(self, holds: Callable[[], bool], _within_s: float, what: str) -> None:
            if not holds():
                waited.append(what)
                raise FleetpulseError(what)

    with nullcontext() if ends else pytest.raises(FleetpulseError):
        run._clear(cast(Any, Waiting(lambda: True)), drill)

    assert waited == waits
