"""Run drills one after the other on one stack: what was seen, what mended it, whether books are exact."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import yaml

from fleetpulse import stack
from fleetpulse.alerts.view import newest
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.reconcile.compare import Report, reconcile
from fleetpulse.services.processes import Processes
from lab.drills.faults import DRILLS, Drill
from lab.drills.finals import with_finals
from lab.drills.outcome import Mended, Outcome
from lab.drills.stand import PAGE, RULES, Stand
from lab.drills.watch import (
    Watch,
    alert_name,
    alert_texts,
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
ENDS_WITHIN_S = 90.0
"""Alerts of what was before are over so soon, but those that look back for long."""
BOOKS_WITHIN_S = 180.0
_SECTION = re.compile(r"^##+ (.+?)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
FIRES_WITHIN_S = 15.0
"""So much longer than its rule's ``for`` an alert may be pending."""
CHECKS = ("fleetpulse doctor", "fleetpulse rules check", "fleetpulse prices check")
"""Lines whose exit code 1 is their answer: something is wrong."""
_UNITS_S = {"s": 1, "m": 60, "h": 3_600}
_BLOCK = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)


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
    logging.getLogger("fleetpulse.dashboard").setLevel(logging.ERROR)  # each look at a page would say it anew
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
    return Outcome(drill.name, drill.cause, Report((), 0, ()), silent=tuple(drill.signs))


def _drill(stand: Stand, drill: Drill, outage_s: float | None, within_s: float, say: Callable[[str], None]) -> Outcome:
    stand.ended.clear()
    say(f"{drill.name}: waiting until nothing is wrong")
    _clear(stand, drill)
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
    books = reconcile(stand.config.kafka, stand.config.clickhouse, wait_s=BOOKS_WITHIN_S, while_waiting=stand.tend)
    books = with_finals(books, stand.config, begun_ms, BOOKS_WITHIN_S, stand.tend)
    stand.tend()
    late = {name for name, sign in watch.seen.items() if sign.after_s > within_s}
    unproven, blind = unwatched(stand, drill, watch)
    unknown = {*unproven, *blind}
    silent = tuple(name for name in drill.signs if name not in unknown and (name not in watch.seen or name in late))
    return Outcome(
        drill.name,
        drill.cause,
        books,
        mended,
        signs=watch.seen,
        silent=silent,
        firing_s=watch.firing_s,
        others=watch.others,
        alerts=_opened(stand, begun_ms),
        overdue="alert" not in blind and is_overdue(watch),
        unproven=unproven,
        blind=blind,
        consequences=drill.consequences | set(drill.signs.values()),
        ended={name: stand.ended[name] for name in sorted(stand.ended.keys() - drill.ends)},
    )


def unwatched(stand: Stand, drill: Drill, watch: Watch) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of the channels whose word counts, which are all where nobody may name a cause: those that nothing watches here,
    and those whose looks failed, so that nothing said is no proof that nothing was there; an alert that was pending
    may have fired."""
    channels = CHANNELS if drill.cause is None else tuple(drill.signs)
    unproven = tuple(name for name in channels if name == "alert" and stand.prometheus is None)
    seen = watch.seen.keys() - ({"alert"} if is_overdue(watch) else set())
    return unproven, tuple(name for name in channels if name not in {*unproven, *watch.looked, *seen})


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


def _clear(stand: Stand, drill: Drill) -> None:
    """Wait until nothing shows the cause, nor an alert that is pending by what was before: it would be taken for one
    that went on. One that fires longer than a while looks back for longer, and is no sign of this fault."""
    cause = drill.signs.get("alert")

    def named() -> list[str]:
        return [text for text in alert_texts(stand) if cause is not None and names(cause, text)]

    def shown() -> bool:
        return _shows(stand, drill) or any(text.startswith("pending") for text in named())

    stand.until(lambda: not shown(), CLEAR_WITHIN_S, f"{drill.cause} is no finding")
    with contextlib.suppress(FleetpulseError):
        stand.until(lambda: not named(), ENDS_WITHIN_S, f"no alert names {cause}")


def _shows(stand: Stand, drill: Drill, also: str = "") -> bool:
    """Whether the doctor or a ``/readyz`` names the cause of a drill (None: any), or a finding begins so. Where neither
    is to show it, an alert, or what that is computed from, does."""
    texts = [*verdicts(stand), *findings(stand)]
    if drill.cause is not None and _has_neither(drill):
        texts += [*alert_texts(stand), *causes_counted(stand)]
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
