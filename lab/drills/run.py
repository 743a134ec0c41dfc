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

from fleetpulse import stack
from fleetpulse.alerts.view import newest
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.processes import Processes
from lab.drills.faults import DRILLS, Drill
from lab.drills.finals import with_finals
from lab.drills.stand import PAGE, RULES, Stand
from lab.drills.watch import Sign, Watch, findings, names, other_causes, verdicts
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
_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one drill. ``signs``: the first of each channel; ``silent``: channels that should have shown it and did not
    in time; ``others``: causes that a channel named beside it. ``mended_s``: since the first line was pasted.
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

    @property
    def good(self) -> bool:
        """Every channel showed the cause in time, or none any where there is none, the advice mended it, and the books
        are exact."""
        seen = not self.silent and (self.cause is not None or not self.others)
        return seen and self.mended_s is not None and self.books.exact and not self.books.empty

    @property
    def compared(self) -> str:
        """The books in a word."""
        return "NOT compared" if not self.books.checks else "exact" if self.books.exact else "NOT exact"

    def text(self) -> str:
        """One line for people."""
        seen = ", ".join(f"{name} {sign.after_s:.0f} s" for name, sign in self.signs.items()) or "nowhere"
        silent = f"; silent: {', '.join(self.silent)}" if self.silent else ""
        mended = "not mended" if self.mended_s is None else f"mended in {self.mended_s:.0f} s"
        left = f", with what it left: {self.left}" if self.left else ""
        return f"{self.name}: {self.cause or 'no fault'}, seen: {seen}{silent}; {mended}{left}; books {self.compared}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "fault": self.name,
            "cause": self.cause,
            "signs": {name: asdict(sign) for name, sign in self.signs.items()},
            "silent": list(self.silent),
            "firing_s": self.firing_s,
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
    stand.until(lambda: not _shows(stand, drill.cause), CLEAR_WITHIN_S, f"{drill.cause} is no finding")
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
    pasted, mended_s, left = _mend_all(stand, drill, say)
    stand.restore()
    say(f"{drill.name}: settling the books")
    books = reconcile(
        stand.config.kafka, stand.config.clickhouse, wait_s=BOOKS_WITHIN_S, while_waiting=stand.processes.tend
    )
    books = with_finals(books, stand.config, begun_ms, BOOKS_WITHIN_S, stand.processes.tend)
    late = {name for name, sign in watch.seen.items() if sign.after_s > within_s}
    watched = [name for name in drill.signs if name != "alert" or stand.prometheus is not None]
    silent = tuple(name for name in watched if name not in watch.seen or name in late)
    others = {name: tuple(sorted(found)) for name, found in watch.others.items()}
    alerts = _opened(stand, begun_ms)
    seen = (watch.seen, silent, watch.firing_s, others)
    return Outcome(drill.name, drill.cause, *seen, pasted, mended_s, books, alerts, left)


def _opened(stand: Stand, since_ms: int) -> tuple[str, ...]:
    """Rules and summaries of the alerts on topic ``alerts`` that were opened since then."""
    found = asyncio.run(newest(stand.config.kafka))
    return tuple(f"{alert.rule}: {alert.summary}" for alert in found if alert.opened_ms >= since_ms)


def _shows(stand: Stand, cause: Cause | None, also: str = "") -> bool:
    """Whether the doctor or a ``/readyz`` names the cause (None: any), or a finding begins so."""
    return any(
        (other_causes(None, text) if cause is None else names(cause, text)) or (also and text.startswith(also))
        for text in (*verdicts(stand), *findings(stand))
    )


def _mend_all(
    stand: Stand, drill: Drill, say: Callable[[str], None]
) -> tuple[tuple[str, ...], float | None, Cause | None]:
    """Mend it, and what it has left behind, where the doctor or a ``/readyz`` names that soon after: lines that were
    pasted, how long both took, and what was left."""
    lines, mended_s = _mend(stand, drill, say)
    if drill.leaves is None or mended_s is None:
        return lines, mended_s, None
    more, more_s = _mend(stand, next(one for one in DRILLS if one.cause is drill.leaves), say)
    if not more:
        return lines, mended_s, None
    return (*lines, *more), None if more_s is None else mended_s + more_s, drill.leaves


def _mend(stand: Stand, drill: Drill, say: Callable[[str], None]) -> tuple[tuple[str, ...], float | None]:
    """Paste what the runbook says, and wait until doctor and ``/readyz`` name the cause no more, and no partition
    stands still. What they named and name no more before anything was pasted, nothing has mended."""
    lines = () if drill.cause is None else advice(drill.cause, drill.paste, PAGE.read_text())
    if drill.cause and drill.cause in (drill.signs.get("readyz"), drill.signs.get("doctor")):
        try:
            stand.until(lambda: _shows(stand, drill.cause), LINE_WITHIN_S, f"{drill.cause} is shown")
        except FleetpulseError:
            return (), None
    begun_s = time.monotonic()
    typed = drill.typed(stand)
    for line in lines:
        if line is lines[-1]:
            drill.by_hand(stand)
        say(f"{drill.name}: {line}")
        process = stand.run(line, typed)
        try:
            process.wait(SERVICE_WITHIN_S if line is lines[-1] else LINE_WITHIN_S)
        except subprocess.TimeoutExpired:
            stand.pasted.append(process)
    try:
        stand.until(lambda: not _shows(stand, drill.cause, "partition."), MENDED_WITHIN_S, f"{drill.cause} is mended")
    except FleetpulseError:
        return lines, None
    return lines, time.monotonic() - begun_s
