"""What the product shows while a fault lasts: one look for each channel, each in a thread of its own.

A look returns texts; one that names the cause by the runbook's words, or links to its section, is a sign of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fleetpulse.dashboard.consumer_lag import LagOfGroups
from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.pages.pipeline import CAUSES, Row, caused, most_lag_first
from lab.bench.stand import samples
from lab.drills.stand import Stand, get, metrics
from runtime.clock import SystemClock
from runtime.runbook import Cause
from schemas.errors import FleetpulseError, UnavailableError
from schemas.limits import MINUTE_MS

Look = Callable[[], Iterable[str]]
LOOK_EVERY_S = 0.5
TEXT_CHARACTERS = 160
LOOK_BACK_MS = 3 * MINUTE_MS
"""So that what an earlier drill left is over."""
DOCTOR_WITHIN_S = 40
AHEAD_S = 1.0
"""By so much a look may be ahead of whoever says when the fault took effect."""


@dataclass(frozen=True, slots=True)
class Sign:
    """``after_s``: since the fault began, or took effect where that is later."""

    after_s: float
    text: str


class Alert(NamedTuple):
    """An alert of the shipped rules that is pending or firing; what is equal but for ``text`` is the same alert."""

    rule: str
    labels: frozenset[tuple[str, str]]
    text: str

    @property
    def key(self) -> tuple[str, frozenset[tuple[str, str]]]:
        return self.rule, self.labels


def names(cause: Cause, text: str) -> bool:
    """Whether a text names the cause, or links to its section."""
    return cause.lower() in text.lower() or f"#{cause.anchor}" in text


def other_causes(cause: Cause | None, text: str) -> set[Cause]:
    """Causes that a text links to and that are another."""
    return {each for each in Cause if each is not cause and f"#{each.anchor}" in text}


def _since(struck_s: float, sign: Sign) -> Sign:
    """After so many seconds fewer; 0 for what was seen before."""
    return replace(sign, after_s=max(0.0, sign.after_s - struck_s))


class Logs:
    """Lines that were written since it was made, of every process."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._read = {path: path.stat().st_size for path in stand.logs.glob("*.log")}

    def __call__(self) -> Iterator[str]:
        for path in sorted(self._stand.logs.glob("*.log")):
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                fresh = log.read()
            whole = fresh[: fresh.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            yield from (f"{path.stem}: {line}" for line in whole.decode(errors="replace").splitlines())


@dataclass(slots=True)
class Watch:
    """Looks of every channel from now on; ``seen``: the first sign of the cause on each, ``others``: the first of every
    other cause; of all of them where no sign is waited for."""

    stand: Stand
    cause: Mapping[str, Cause]
    """By channel what is waited for."""
    of: str = ""
    """What a sign has to hold, too."""
    seen: dict[str, Sign] = field(default_factory=dict)
    others: dict[str, dict[Cause, Sign]] = field(default_factory=dict)
    firing_s: float | None = None
    """After which the first alert of the cause was not only pending."""
    lasted_s: float = 0.0
    """So long it looked, since the fault took effect."""
    looked: set[str] = field(default_factory=set)
    """Channels that completed a look, and whose last one did: what the others do not say proves nothing."""
    _over: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _begun_s: float = 0.0
    _before: set[tuple[str, frozenset[tuple[str, str]]]] = field(default_factory=set)
    """Alerts that went on already."""
    _wrong_before: set[Cause] = field(default_factory=set)
    """Causes that were named already, by what an earlier fault has left."""

    def begin(self) -> None:
        """Look from now on."""
        looks: dict[str, Look] = {
            "log": Logs(self.stand),
            "readyz": lambda: verdicts(self.stand),
            "alert": lambda: (alert.text for alert in alerts(self.stand) if alert.key not in self._before),
            "doctor": lambda: findings(self.stand),
            "page": self._page,
        }
        before = []
        try:
            before = list(alerts(self.stand))
        except UnavailableError:
            del looks["alert"]  # what it will show later may have gone on already
        self._before = {alert.key for alert in before}
        if self.cause:
            texts = [*(alert.text for alert in before), *verdicts(self.stand), *findings(self.stand), *self._page()]
            self._wrong_before = {cause for text in texts for cause in other_causes(None, text)}
        self._begun_s = time.monotonic()
        for name, look in looks.items():
            thread = threading.Thread(target=self._look, args=(name, look), name=f"watch-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        struck_s, kept = self._struck_s, self._signs
        self.seen = {name: _since(struck_s, sign) for name, sign in kept.items()}
        self.others = {
            name: {cause: _since(struck_s, sign) for cause, sign in found.items()}
            for name, found in self.others.items()
        }
        fired = "alert" in kept and self.firing_s is not None
        self.firing_s = max(0.0, (self.firing_s or 0.0) - struck_s) if fired else None
        self.lasted_s = time.monotonic() - self._begun_s - struck_s

    @property
    def _struck_s(self) -> float:
        """When the fault took effect, since the watch began; 0: at once, or not yet."""
        return max(0.0, (self.stand.struck_s or 0.0) - self._begun_s)

    def has_all(self) -> bool:
        """Whether every channel has shown what is waited for."""
        return self.cause.keys() <= self._signs.keys()

    @property
    def _signs(self) -> dict[str, Sign]:
        """What was seen since the fault took effect."""
        return {name: sign for name, sign in self.seen.items() if sign.after_s >= self._struck_s - AHEAD_S}

    def _look(self, name: str, look: Look) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            self.looked.discard(name)
            with contextlib.suppress(UnavailableError):
                for text in look():
                    self._take(name, text)
                self.looked.add(name)

    def _take(self, name: str, text: str) -> None:
        cause = self.cause.get(name)
        if self.cause and cause is None:
            return
        sign = Sign(time.monotonic() - self._begun_s, text[:TEXT_CHARACTERS])
        if cause is not None and names(cause, text) and self.of in text:
            if name not in self._signs:
                self.seen[name] = sign
            fired = name == "alert" and text.startswith("firing")
            if fired and (self.firing_s is None or self.firing_s < self._struck_s - AHEAD_S):
                self.firing_s = sign.after_s
        elif not text.startswith("pending"):  # of an alert that nobody is notified of yet, such as of one restart
            found = other_causes(cause, text) if self.cause else {each for each in Cause if names(each, text)}
            for each in found - self._wrong_before:
                self.others.setdefault(name, {}).setdefault(each, sign)

    def _page(self) -> Iterator[str]:
        """Of page *Pipeline*: its tables that name causes, and what it says where a query fails."""
        rows, troubles = asyncio.run(self._pipeline())
        yield from troubles
        yield from (str(row) for row in rows if row["wrong"])

    async def _pipeline(self) -> tuple[list[Row], list[str]]:
        data, troubles, rows = Data(self.stand.config.reading), list[str](), list[Row]()
        now_ms = SystemClock().now_ms()
        bounds = {"from_ms": now_ms - LOOK_BACK_MS, "to_ms": now_ms}
        try:
            for query in CAUSES:
                rows += caused(query, (await data.ask(query, bounds, LOOK_BACK_MS)).records())
        except FleetpulseError as error:
            troubles.append(str(error))
        finally:
            await data.close()
        try:
            rows += most_lag_first(await LagOfGroups(self.stand.config.kafka).ask())
        except FleetpulseError as error:
            troubles.append(str(error))
        return rows, troubles


def alerts(stand: Stand) -> Iterator[Alert]:
    """Alerts of the shipped rules that are pending or firing; none where there is no Prometheus. Raises
    UnavailableError for one that does not answer: what it would say is not known."""
    if stand.prometheus is None:
        return
    try:
        found = json.loads(get(stand.prometheus, "/api/v1/alerts") or b"")["data"]["alerts"]
    except (ValueError, KeyError) as error:
        raise UnavailableError("Prometheus does not answer") from error
    for each in found:
        rule, facts = each["labels"]["alertname"], each["annotations"]
        text = f"{each['state']} {rule}: {facts['summary']} {facts['runbook_url']}"
        yield Alert(rule, frozenset(each["labels"].items()), text)


def alert_texts(stand: Stand) -> list[str]:
    """Texts of the alerts, as far as Prometheus answers."""
    with contextlib.suppress(UnavailableError):
        return [alert.text for alert in alerts(stand)]
    return []


def causes_counted(stand: Stand) -> Iterator[str]:
    """Causes that a process counts as present on ``/metrics``, which alerts are computed from."""
    for port in list(stand.ports.values()):
        yield from (one.labels["cause"] for one in samples(metrics(port), "cause") if one.value > 0)


def alert_name(text: str) -> str:
    """Of the text of an alert: its rule."""
    return text.split()[1].rstrip(":")


def verdicts(stand: Stand) -> Iterator[str]:
    """What ``/readyz`` of every process says."""
    for name, port in list(stand.ports.items()):  # a drill may start one more meanwhile
        if (found := get(port, "/readyz")) is not None:
            yield f"{name}: {found.decode()}"


def findings(stand: Stand) -> list[str]:
    """What ``fleetpulse doctor`` finds wrong where the services run, as lines."""
    try:
        found = reported(stand)
    except FleetpulseError as error:
        return [str(error)]
    return [
        f"{one['check']} {one['subject']}: {one['says']} {one['runbook'] or ''}"
        for one in found
        if one["state"] == "wrong"
    ]


def reported(stand: Stand) -> list[dict[str, Any]]:
    """Findings of ``fleetpulse doctor``. Raises FleetpulseError with what it says where it reports none."""
    words = [sys.executable, "-m", "fleetpulse", "doctor", "--json", "--within", str(DOCTOR_WITHIN_S)]
    done = subprocess.run(words, env=stand.variables, capture_output=True, text=True, check=False)
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    except ValueError:
        raise FleetpulseError(done.stderr) from None
    return found
