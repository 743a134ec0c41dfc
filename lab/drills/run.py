"""Run drills one after the other on one stack: what was seen, what mended it, whether books are exact."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from fleetpulse import stack
from fleetpulse.alerts.view import newest
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.processes import Processes
from lab.drills.faults import DRILLS, Drill
from lab.drills.finals import with_finals
from lab.drills.stand import PAGE, RULES, Stand
from lab.drills.watch import (
    Sign,
    Watch,
    alert_name,
    alerts,
    causes_counted,
    findings,
    names,
    other_causes,
    verdicts,
)
from runtime.clock import SystemClock
from runtime.config import load
from runtime.runbook import Cause
from schemas.errors import ConfigError, FleetpulseError

CHANNELS = ("log", "readyz", "alert", "doctor", "page")
LINE_WITHIN_S, SERVICE_WITHIN_S = 60.0, 15.0
"""So long a pasted line is waited for, and the last one, which may be a service that goes on."""
DISK_BYTES = 2_600 << 20
"""Of a disk that is to be full: a little more than the doctor wants to be left."""
CLEAR_WITHIN_S = MENDED_WITHIN_S = 300.0
BOOKS_WITHIN_S = 180.0
_SECTION = re.compile(r"^##+ (.+?)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
FIRES_WITHIN_S = 15.0
"""So much longer than its rule's ``for`` an alert may be pending."""
CHECKS = ("fleetpulse doctor", "fleetpulse rules check", "fleetpulse prices check")
"""Lines whose exit code 1 is their answer: something is wrong."""
_UNITS_S = {"s": 1, "m": 60, "h": 3_600}
_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one drill. ``signs``: the first of each channel; ``silent``: channels that should have shown it and did not
    in time; ``others``: causes that a channel named beside it. ``mended_s``: since the first line was pasted.
    ``pending``: the alert was not more, ``overdue``: for too long. ``unproven``: channels that nothing watched here.
    ``failed``: pasted lines with their exit codes. ``consequences``: other causes that are true while the fault lasts.
    ``alerts``: what was opened about the fleet meanwhile, which names no cause of the pipeline. ``left``: what the
    fault left behind, which was mended as its own section says."""

    name: str
    cause: Cause | None
    signs: Mapping[str, Sign]
    silent: tuple[str, ...]
    firing_s: float | None
    others: Mapping[str, tuple[str, ...]]
    pasted: tuple[str, ...]
    mended_s: float | None
    books: Report
    alerts: tuple[str, ...] = ()
    left: Cause | None = None
    overdue: bool = False
    unproven: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    consequences: frozenset[Cause] = frozenset()

    @property
    def good(self) -> bool:
        """Every channel showed the cause in time and none another that is not its consequence, or none any where there
        is none; the advice mended it without a line that failed, and the books are exact."""
        seen = not self.silent and not self.overdue and not self.unexplained
        mended = self.mended_s is not None and not self.failed
        return seen and mended and self.books.exact and not self.books.empty

    @property
    def pending(self) -> bool:
        """Whether the alert was there and notified nobody yet."""
        return "alert" in self.signs and self.firing_s is None

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Other causes that are no consequence."""
        found = {cause for causes in self.others.values() for cause in causes}
        return tuple(sorted(found - self.consequences - {self.left}))

    @property
    def verdict(self) -> str:
        """What is wrong, or ``good``, and what was not looked at."""
        wrong = [f"silent: {', '.join(self.silent)}"] if self.silent else []
        wrong += ["alert does not fire"] if self.overdue else []
        wrong += [f"also named: {', '.join(self.unexplained)}"] if self.unexplained else []
        wrong += [f"failed: {', '.join(self.failed)}"] if self.failed else []
        found = "; ".join(wrong) or ("good" if self.good else "WRONG")
        return found + "".join(f"; not proven: {name}" for name in self.unproven)

    @property
    def compared(self) -> str:
        """The books in a word."""
        return "NOT compared" if not self.books.checks else "exact" if self.books.exact else "NOT exact"

    def text(self) -> str:
        """One line for people."""
        seen = ", ".join(f"{name} {self.when(name)}" for name in self.signs) or "nowhere"
        silent = f"; silent: {', '.join(self.silent)}" if self.silent else ""
        silent += "; alert does not fire" if self.overdue else ""
        silent += f"; also named: {', '.join(self.unexplained)}" if self.unexplained else ""
        silent += f"; not proven: {', '.join(self.unproven)}" if self.unproven else ""
        silent += f"; failed: {', '.join(self.failed)}" if self.failed else ""
        mended = "not mended" if self.mended_s is None else f"mended in {self.mended_s:.0f} s"
        left = f", with what it left: {self.left}" if self.left else ""
        return f"{self.name}: {self.cause or 'no fault'}, seen: {seen}{silent}; {mended}{left}; books {self.compared}"

    def when(self, channel: str) -> str:
        """How soon a channel showed it; empty where it did not."""
        if channel not in self.signs:
            return ""
        return f"{self.signs[channel].after_s:.0f} s" + (" (pending)" if channel == "alert" and self.pending else "")

    def as_dict(self) -> dict[str, Any]:
        return {
            "fault": self.name,
            "cause": self.cause,
            "signs": {name: asdict(sign) for name, sign in self.signs.items()},
            "silent": list(self.silent),
            "firing_s": self.firing_s,
            "pending": self.pending,
            "overdue": self.overdue,
            "unproven": list(self.unproven),
            "unexplained": list(self.unexplained),
            "failed": list(self.failed),
            "others": {name: list(found) for name, found in self.others.items()},
            "alerts": list(self.alerts),
            "pasted": list(self.pasted),
            "mended_s": self.mended_s,
            "left": self.left,
            "books_exact": self.books.exact,
            "comparisons": self.books.checks,
            "differences": [str(one) for one in self.books.differences],
            "good": self.good,
        }


@dataclass(frozen=True, slots=True)
class Mended:
    """What was done about a fault. ``pasted``: lines of the runbook. ``within_s``: how soon it was mended after the
    first of them; None: it is not. ``failed``: lines that failed. ``left``: what it had left behind, mended as well."""

    pasted: tuple[str, ...] = ()
    within_s: float | None = None
    failed: tuple[str, ...] = ()
    left: Cause | None = None


def advice(cause: Cause, paste: Sequence[str] | None, page: str) -> tuple[str, ...]:
    """Lines of the runbook's section, those that hold one of ``paste``. Raises FleetpulseError where there are none."""
    sections = dict(_SECTION.findall(page))
    lines = [line for block in _BLOCK.findall(sections.get(cause, "")) for line in block.splitlines()]
    found = tuple(line for line in lines if paste is None or any(word in line for word in paste))
    if not found:
        raise FleetpulseError(f"the runbook says nothing to paste for: {cause}")
    return found


def chosen(wanted: Sequence[str]) -> list[Drill]:
    """Drills whose names begin so, all without any. Raises ConfigError for a name of none."""
    for word in wanted:
        if not any(drill.name.startswith(word) for drill in DRILLS):
            raise ConfigError("NAME", word, "must be the beginning of " + ", ".join(drill.name for drill in DRILLS))
    return [drill for drill in DRILLS if not wanted or drill.name.startswith(tuple(wanted))]


def run_drills(
    wanted: Sequence[str],
    *,
    seed: int,
    outage_s: float | None,
    within_s: float,
    data_dir: Path | None,
    say: Callable[[str], None],
) -> list[Outcome]:
    """Drills on a stack of their own below the data folder. ``outage_s``: so long each fault lasts at least, in place
    of its own. ``within_s``: so soon each channel has to show it. Raises when the stack does not come up."""
    drills = chosen(wanted)
    if not RULES.is_file() or not PAGE.is_file():
        raise FleetpulseError("drills need a checkout: the shipped rules and the runbook are in deploy/ and docs/")
    folder = load({"data_dir": data_dir}).data_dir / "drills" / f"seed-{seed}"
    if folder.exists():
        stack.down(folder)
        shutil.rmtree(folder)
    with _small_disks(folder, {drill.disk for drill in drills if drill.disk}):
        outcomes = _on_a_stand(folder, seed, drills, outage_s, within_s, say)
    if all(one.good for one in outcomes):
        shutil.rmtree(folder)
    return outcomes


@contextlib.contextmanager
def _small_disks(folder: Path, names: Collection[str]) -> Iterator[None]:
    """Disks in memory at these folders below. Raises FleetpulseError for who may not mount."""
    with contextlib.ExitStack() as mounted:
        for name in names:
            (folder / name).mkdir(parents=True)
            words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=700", "tmpfs", str(folder / name)]
            if (done := subprocess.run(words, capture_output=True, text=True, check=False)).returncode:
                raise FleetpulseError(f"a full disk needs the right to mount one: {done.stderr.strip()}")
            mounted.callback(subprocess.run, ["umount", "--lazy", str(folder / name)], check=False)
        yield


def _on_a_stand(
    folder: Path,
    seed: int,
    drills: Sequence[Drill],
    outage_s: float | None,
    within_s: float,
    say: Callable[[str], None],
) -> list[Outcome]:
    try:
        config = bring_up(folder, say)
        with Processes(folder / "processes") as processes:
            stand = Stand(folder, config, processes, seed)
            try:
                stand.begin()
                outcomes = []
                for drill in drills:
                    outcomes.append(_tried(stand, drill, outage_s, within_s, say))
                    say(outcomes[-1].text())
            finally:
                stand.end()
    finally:
        stack.down(folder)
    return outcomes


def _tried(stand: Stand, drill: Drill, outage_s: float | None, within_s: float, say: Callable[[str], None]) -> Outcome:
    """A drill that does not come to its end has failed, and so have those after it where the stand stays unwell; what
    was found is never lost."""
    try:
        return _drill(stand, drill, outage_s, within_s, say)
    except FleetpulseError as error:
        say(f"{drill.name}: {error}")
    try:
        stand.restore()
    except FleetpulseError as error:
        say(f"{drill.name}: {error}")
    return _failed(drill)


def _failed(drill: Drill) -> Outcome:
    """Of a drill that did not come to its end: nothing is known."""
    return Outcome(drill.name, drill.cause, {}, tuple(drill.signs), None, {}, (), None, Report((), 0, ()))


def _drill(stand: Stand, drill: Drill, outage_s: float | None, within_s: float, say: Callable[[str], None]) -> Outcome:
    say(f"{drill.name}: waiting until nothing is wrong")
    stand.until(
        lambda: not (_shows(stand, drill) or _is_pending(stand, drill)), CLEAR_WITHIN_S, f"{drill.cause} is no finding"
    )
    watch = Watch(stand, drill.signs, drill.of)
    watch.begin()
    say(f"{drill.name}: begins")
    begun_s, begun_ms = time.monotonic(), SystemClock().now_ms()
    try:
        drill.begin(stand)
        least_s = drill.outage_s if outage_s is None else outage_s
        begun_s = max(begun_s, stand.struck_s or 0.0)
        while (passed_s := time.monotonic() - begun_s) < least_s or (passed_s < within_s and not watch.has_all()):
            stand.pass_time(0.5)
    finally:
        watch.end()
    mended = _mend_all(stand, drill, say)
    stand.restore()
    say(f"{drill.name}: settling the books")
    books = reconcile(
        stand.config.kafka, stand.config.clickhouse, wait_s=BOOKS_WITHIN_S, while_waiting=stand.processes.tend
    )
    books = with_finals(books, stand.config, begun_ms, BOOKS_WITHIN_S, stand.processes.tend)
    late = {name for name, sign in watch.seen.items() if sign.after_s > within_s}
    unproven = tuple(name for name in drill.signs if name == "alert" and stand.prometheus is None)
    silent = tuple(name for name in drill.signs if name not in unproven and (name not in watch.seen or name in late))
    others = {name: tuple(sorted(found)) for name, found in watch.others.items()}
    return Outcome(
        drill.name, drill.cause, watch.seen, silent, watch.firing_s, others, mended.pasted, mended.within_s, books,
        _opened(stand, begun_ms), mended.left, is_overdue(watch), unproven, mended.failed,
        drill.consequences | set(drill.signs.values()),
    )  # fmt: skip


def is_overdue(watch: Watch) -> bool:
    """Whether the alert was pending for longer than its rule says, as far as the drill lasted."""
    if (sign := watch.seen.get("alert")) is None:
        return False
    until_s = watch.lasted_s if watch.firing_s is None else watch.firing_s
    return until_s - sign.after_s > pending_s(alert_name(sign.text)) + FIRES_WITHIN_S


def pending_s(rule: str) -> float:
    """How long an alert of the shipped rule is pending before it fires."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    (time,) = (one.get("for", "0s") for group in groups for one in group["rules"] if one.get("alert") == rule)
    return float(sum(int(number) * _UNITS_S[unit] for number, unit in re.findall(r"(\d+)([smh])", time)))


def _opened(stand: Stand, since_ms: int) -> tuple[str, ...]:
    """Rules and summaries of the alerts on topic ``alerts`` that were opened since then."""
    found = asyncio.run(newest(stand.config.kafka))
    return tuple(f"{alert.rule}: {alert.summary}" for alert in found if alert.opened_ms >= since_ms)


def _is_pending(stand: Stand, drill: Drill) -> bool:
    """Whether an alert that is to show it is pending by what was before: it would be taken for one that went on."""
    cause = drill.signs.get("alert")
    return cause is not None and any(text.startswith("pending") and names(cause, text) for text in alerts(stand))


def _shows(stand: Stand, drill: Drill, also: str = "") -> bool:
    """Whether the doctor or a ``/readyz`` names the cause of a drill (None: any), or a finding begins so. Where neither
    is to show it, an alert, or what that is computed from, does."""
    texts = [*verdicts(stand), *findings(stand)]
    if drill.cause is not None and _has_neither(drill):
        texts += [*alerts(stand), *causes_counted(stand)]
    return any(
        (other_causes(None, text) if drill.cause is None else names(drill.cause, text))
        or (also and text.startswith(also))
        for text in texts
    )


def _mend_all(stand: Stand, drill: Drill, say: Callable[[str], None]) -> Mended:
    """Mend it, and what it has left behind, where the doctor or a ``/readyz`` names that soon after."""
    mended = _mend(stand, drill, say)
    if drill.leaves is None or mended.within_s is None:
        return mended
    more = _mend(stand, next(one for one in DRILLS if one.cause is drill.leaves), say)
    if not more.pasted:
        return mended
    both_s = None if more.within_s is None else mended.within_s + more.within_s
    return Mended((*mended.pasted, *more.pasted), both_s, (*mended.failed, *more.failed), drill.leaves)


def _mend(stand: Stand, drill: Drill, say: Callable[[str], None]) -> Mended:
    """Paste what the runbook says, and wait until what showed the cause names it no more, and no partition stands
    still. What was named and is no more before anything was pasted, nothing has mended."""
    lines = () if drill.cause is None else advice(drill.cause, drill.paste, PAGE.read_text())
    if drill.cause and (drill.cause in (drill.signs.get("readyz"), drill.signs.get("doctor")) or _has_neither(drill)):
        try:
            stand.until(lambda: _shows(stand, drill), LINE_WITHIN_S, f"{drill.cause} is shown")
        except FleetpulseError:
            return Mended()
    begun_s = time.monotonic()
    typed = drill.typed(stand)
    run = list[tuple[str, subprocess.Popen[bytes]]]()
    for line in lines:
        if line is lines[-1]:
            drill.by_hand(stand)
        say(f"{drill.name}: {line}")
        process = stand.run(line, typed)
        run.append((line, process))
        try:
            process.wait(SERVICE_WITHIN_S if line is lines[-1] else LINE_WITHIN_S)
        except subprocess.TimeoutExpired:
            stand.pasted.append(process)
    try:
        stand.until(lambda: not _shows(stand, drill, "partition."), MENDED_WITHIN_S, f"{drill.cause} is mended")
    except FleetpulseError:
        return Mended(lines, None, _failed_lines(drill, run))
    return Mended(lines, time.monotonic() - begun_s, _failed_lines(drill, run))


def _has_neither(drill: Drill) -> bool:
    """Whether neither the doctor nor a ``/readyz`` is to show it."""
    return not drill.signs.keys() & {"readyz", "doctor"}


def _failed_lines(drill: Drill, run: Sequence[tuple[str, subprocess.Popen[bytes]]]) -> tuple[str, ...]:
    """Lines that ended with an error; a service goes on, and an answer that something is wrong is none."""
    found = []
    for line, process in run:
        code = process.poll()
        answered = code == 1 and line.startswith(CHECKS)
        if code and not answered and not any(word in line for word in drill.fails):
            found.append(f"{line} (exit {code})")
    return tuple(found)
