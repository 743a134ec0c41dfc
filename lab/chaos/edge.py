"""Faults at the edge, under streams: a proxy in front of a mock engine and an agent, both as they are shipped.

While a fault lasts streams must be served, none may be cut or changed, or refused unless that is documented of it, no
process may end; in the end every request that was served is in the books of the proxy's spool, or declared as shed in
them. Readiness must say what is wrong of a disk that is full, read-only or failing, the proxy's log of descriptors, TLS
and Kafka; of a slow disk and of the clock nothing must. Something must show that the fault took effect. Kafka is away
all the time, so that nothing leaves the spool; but for two faults, where it is killed, comes back and must get
everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fleetpulse import stack
from fleetpulse.migrate.bring_up import bring_up
from fleetpulse.stack import daemons, java, kafka, kafka_jars, ports
from lab.bench.counterparts import spooled_rows
from lab.chaos.clock_shim import SteppedClock
from lab.chaos.disk_shim import FaultyDisk, compiler
from lab.chaos.edge_load import Fate, Loaded, Phase, Phases, under_load
from lab.chaos.edge_parts import START_WITHIN_S, agent, engine, proxy
from producers.spool.spool import Spool
from runtime.clock import SystemClock
from runtime.live_process import Process
from runtime.local_stack import StackState, read_state
from schemas.errors import FleetpulseError
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import MINUTE_MS

MEMORY_MIB_MAX = 400
GIVEN_UP_S = 45.0
"""Beyond ``kafka.request_timeout_ms``: who waited for Kafka then connects anew, and reads the files of TLS again."""
NOWHERE = "127.0.0.1:9"


@dataclass(frozen=True, slots=True)
class Fault:
    """``disk`` is a fault of the disk, ``descriptors`` the limit of the proxy's. ``kafka``: it is killed; ``tls``: it
    is killed, is away until clients have given up, and comes back while the file of its authority is gone.
    ``clock_ms``: so far the wall clock steps, and back at the end. ``noted``: readiness must say it; ``logged``: the
    proxy's log must. ``streams_min``: it takes effect with no fewer; beyond them clients are refused, as documented."""

    name: str
    disk: str | None = None
    descriptors: int | None = None
    kafka: bool = False
    tls: bool = False
    clock_ms: int | None = None
    noted: bool = True
    logged: str | None = None
    streams_min: int = 0

    @property
    def shim(self) -> bool:
        """Whether a library of C makes it."""
        return self.disk is not None or self.clock_ms is not None

    @property
    def word(self) -> str:
        """What whatever makes it is set to."""
        return self.disk or (str(self.clock_ms) if self.clock_ms is not None else "away")


FAULTS = (
    Fault("disk full", "full"),
    Fault("disk read-only", "read-only"),
    Fault("disk failing", "failing"),
    Fault("disk slow", "slow 3000", noted=False),
    Fault(
        "256 descriptors",
        descriptors=256,
        noted=False,
        logged="too few file descriptors for proxy.connections_max",
        streams_min=128,  # 96 connections are taken: two descriptors for each, 64 for all else
    ),
    Fault("clock forward", clock_ms=5 * MINUTE_MS, noted=False),
    Fault("clock back", clock_ms=-5 * MINUTE_MS, noted=False),
    Fault("CA file gone", tls=True, noted=False, logged="cannot be read; those before are used"),
    Fault("Kafka away", kafka=True, noted=False, logged="Kafka unavailable, retrying"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one fault. ``refused`` clients got a 503 instead of a stream, and ``reset`` ones no connection;
    ``missing`` requests were served and are neither in the books nor declared; ``unsent`` of the booked ones were not
    acknowledged. ``phases``: the streams by when they began. ``witness``: what shows that the fault took effect; None:
    nothing does."""

    fault: str
    streams: int
    refused: int
    reset: int
    cut: int
    changed: int
    requests: int
    booked: int
    declared: int
    unsent: int
    notes: Mapping[str, str]
    ended: Sequence[str]
    not_back: Sequence[str]
    memory_mib: Mapping[str, int]
    wrong: Sequence[str]
    phases: Phases
    witness: str | None

    @property
    def missing(self) -> int:
        """Below 0: more than were served."""
        return self.requests - self.booked - self.declared


@dataclass(frozen=True, slots=True)
class EdgeReport:
    """All faults that were made."""

    outcomes: tuple[Outcome, ...]

    @property
    def exact(self) -> bool:
        """Whether nothing is wrong with any."""
        return bool(self.outcomes) and not any(one.wrong for one in self.outcomes)

    def as_dict(self) -> dict[str, Any]:
        outcomes = [asdict(one) | {"missing": one.missing} for one in self.outcomes]
        return {"exact": self.exact, "faults": outcomes}

    def text(self) -> str:
        head = (
            "fault", "streams", "during", "503", "reset", "cut", "changed", "served", "in books", "declared", "missing",
            "MiB",
        )  # fmt: skip
        lines = [_line(head)]
        for one in self.outcomes:
            memory = "/".join(map(str, one.memory_mib.values()))
            asked = (one.streams, sum(one.phases[Phase.DURING].values()), one.refused, one.reset, one.cut, one.changed)
            lines.append(_line((one.fault, *asked, one.requests, one.booked, one.declared, one.missing, memory)))
        lines += [f"{one.fault}: took effect: {one.witness}" for one in self.outcomes if one.witness]
        lines += [f"{one.fault}: {what}" for one in self.outcomes for what in one.wrong]
        return "\n".join([*lines, "all served, all accounted for" if self.exact else "NOT as it should be"])


def _line(cells: Sequence[object]) -> str:
    return str(cells[0]).ljust(18) + "".join(str(cell).rjust(10) for cell in cells[1:])


def run_edge(
    *, streams: int, fault_s: float, only: str | None, data_dir: Path, say: Callable[[str], None]
) -> EdgeReport:
    """Make each fault in turn, for ``fault_s`` under so many streams. ``only``: the fault of this name alone. Raises
    FleetpulseError, before the first, where this machine cannot make all of them."""
    wanted = [fault for fault in FAULTS if only in (None, fault.name)]
    if not wanted:
        raise FleetpulseError(f"no such fault; there are: {', '.join(fault.name for fault in FAULTS)}")
    shims = [fault.name for fault in wanted if fault.shim]
    if shims and compiler() is None:
        need = f"a C compiler (cc) is needed for {', '.join(shims)}"
        raise FleetpulseError(f"{need}: install one, or name another fault by --only")
    outcomes = []
    for fault in wanted:
        say(fault.name)
        folder = data_dir / "chaos" / fault.name.replace(" ", "-")
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "disk").mkdir(parents=True)
        broker = _broker(fault, folder / "stack", say)
        try:
            outcomes.append(_run(fault, folder, streams, fault_s, broker))
        finally:
            if broker is not None:
                broker.end()
        if not outcomes[-1].wrong:
            shutil.rmtree(folder)
    return EdgeReport(tuple(outcomes))


def _broker(fault: Fault, folder: Path, say: Callable[[str], None]) -> _Kafka | None:
    if fault.tls:
        return _TlsKafka(folder, say)
    return _Kafka(folder, say) if fault.kafka else None


class _Kafka:
    """A local stack whose Kafka may be killed. ``environment``: how parts find it."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.environment = {"FLEETPULSE_KAFKA__BOOTSTRAP": bring_up(folder, say).kafka.bootstrap}

    def end(self) -> None:
        """For good."""
        stack.down(self.folder)

    def set(self, fault: str) -> None:
        """As ``FaultyDisk.set``."""
        if fault == "none":
            stack.start_part(self.folder, stack.KAFKA)
        else:
            stack.kill(self.folder, stack.KAFKA)


class _TlsKafka(_Kafka):
    """The same broker with a listener behind TLS, the file of whose authority may be gone when it comes back."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        super().__init__(folder, say)
        stack.kill(folder, stack.KAFKA)
        state = read_state(folder)
        assert state is not None
        (port,) = ports.free_ports(1, start=os.getpid())
        self._state, self._authority, key = state, folder / "ca.crt", folder / "server.pem"
        make = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        name = ("-subj", "/CN=kafka", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2")
        subprocess.run([*make, *name, "-keyout", key, "-out", self._authority], check=True, capture_output=True)
        key.write_text(key.read_text() + self._authority.read_text())
        self._properties = _tls_properties(state, port, key)
        self.environment = {
            "FLEETPULSE_KAFKA__BOOTSTRAP": f"127.0.0.1:{port}",
            "FLEETPULSE_KAFKA__SECURITY_PROTOCOL": "SSL",
            "FLEETPULSE_KAFKA__SSL_CAFILE": str(self._authority),
        }
        self._process = self._start()

    def _start(self) -> Process:
        state = self._state
        kafka.prepare(state)
        (state.data_dir / kafka.NAME / "server.properties").write_text(self._properties, encoding="utf-8")
        jars = kafka_jars.jars(kafka_jars.cache_dir(os.environ, state.data_dir), lambda _said: None)
        command = kafka.command(state, java.find_java(os.environ), jars)
        process = daemons.spawn(command, state.data_dir / "log" / "kafka.log")
        if not daemons.wait_until(lambda: kafka.is_ready(state.ports.kafka), START_WITHIN_S):
            daemons.kill(process)
            raise FleetpulseError("the broker behind TLS does not come up")
        return process

    def set(self, fault: str) -> None:
        """As ``FaultyDisk.set``."""
        gone = self._authority.with_suffix(".gone")
        if fault == "none":
            gone.rename(self._authority)
            return
        self._authority.rename(gone)
        daemons.kill(self._process)
        time.sleep(GIVEN_UP_S)
        self._process = self._start()

    def end(self) -> None:
        daemons.stop(self._process, 20.0)
        super().end()


def _tls_properties(state: StackState, port: int, key: Path) -> str:
    plain = f"PLAINTEXT://127.0.0.1:{state.ports.kafka}"
    own = {
        "listeners": f"{plain},CONTROLLER://127.0.0.1:{state.ports.kafka_controller},TLS://127.0.0.1:{port}",
        "advertised.listeners": f"{plain},TLS://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key),
    }
    settings = kafka.settings(state.nodes, state.data_dir / kafka.NAME / "log")
    return settings + "".join(f"{name}={value}\n" for name, value in own.items())


def _run(fault: Fault, folder: Path, streams: int, fault_s: float, broker: _Kafka | None) -> Outcome:
    shim: FaultyDisk | SteppedClock | None = None
    if fault.shim:
        shim = FaultyDisk(folder / "disk", folder) if fault.disk else SteppedClock(folder)
    found = {"FLEETPULSE_KAFKA__BOOTSTRAP": NOWHERE} if broker is None else broker.environment
    begun_ms = SystemClock().now_ms()
    with contextlib.ExitStack() as running:
        port = running.enter_context(engine())
        parts = {
            "proxy": running.enter_context(proxy(folder, shim, found, fault.descriptors, port)),
            "agent": running.enter_context(agent(folder, shim, found)),
        }
        for part in parts.values():
            part.wait_until_up()
        streams = max(streams, fault.streams_min)
        loaded = asyncio.run(under_load(parts, shim or broker, fault.word, streams, fault_s, noted=fault.noted))
        ended = [name for name, part in parts.items() if part.process.poll() is not None]
        not_back = [name for name, part in parts.items() if name not in ended and not part.is_back()]
        memory_mib = {name: part.memory_bytes_max >> 20 for name, part in parts.items()}
        for part in parts.values():
            part.stop()
    span_ms = (begun_ms, SystemClock().now_ms())
    hits = shim.hits(parts["proxy"].process.pid) if isinstance(shim, FaultyDisk) else 0
    # The proxy always has something to send; an agent may never have met the fault.
    logged = fault.logged is not None and parts["proxy"].logged(fault.logged)
    booked, declared, unsent, rows = _books(folder / "disk" / "proxy")
    outcome = Outcome(
        fault.name,
        loaded.count(*Fate),
        loaded.count(Fate.REFUSED),
        loaded.count(Fate.RESET),
        loaded.count(Fate.CUT),
        loaded.count(Fate.CHANGED),
        loaded.count(Fate.WHOLE, Fate.CHANGED),
        booked,
        declared,
        unsent,
        loaded.notes,
        ended,
        not_back,
        memory_mib,
        (),
        loaded.phases,
        _witness(fault, hits, [row["at_ms"] for row in rows], span_ms, loaded, logged=logged),
    )
    return replace(outcome, wrong=tuple(_wrong(outcome, fault)))


def _witness(
    fault: Fault, hits: int, at_ms: Sequence[int], span_ms: tuple[int, int], loaded: Loaded, *, logged: bool
) -> str | None:
    """What shows that the fault took effect: calls of the disk that the proxy saw fail or wait, times of its rows that
    lie outside the run's, clients that it refused, its log."""
    if fault.disk is not None:
        return f"{hits} calls of the proxy failed or waited" if hits else None
    if fault.clock_ms is not None:
        half_ms = fault.clock_ms // 2
        stepped = sum(at > span_ms[1] + half_ms if half_ms > 0 else at < span_ms[0] + half_ms for at in at_ms)
        return f"{stepped} rows have the clock's time" if stepped else None
    refused = loaded.count(Fate.REFUSED)
    if not logged or (fault.streams_min and not refused):
        return None
    return f"the proxy's log: {fault.logged}" + (f"; {refused} were refused" if fault.streams_min else "")


def _wrong(one: Outcome, fault: Fault) -> Iterator[str]:
    if one.cut or one.changed:
        yield f"{one.cut} streams were cut, {one.changed} changed"
    if one.refused and not fault.streams_min:
        yield f"{one.refused} requests got a 503"
    if one.reset:
        yield f"{one.reset} clients got no connection"
    if not one.requests:
        yield "no stream was served"
    else:
        unserved = (phase for phase in (Phase.DURING, Phase.AFTER) if not one.phases[phase][Fate.WHOLE])
        yield from (f"no stream that began {phase} the fault was served" for phase in unserved)
    if one.witness is None:
        yield "nothing shows that the fault took effect"
    if one.missing:
        yield f"{one.missing} requests are neither in the books nor declared"
    yield from (f"{name} ended" for name in one.ended)
    yield from (f"readiness of the {name} does not become good again" for name in one.not_back)
    if (fault.kafka or fault.tls) and one.unsent:
        yield f"{one.unsent} requests did not reach Kafka when it was back"
    if fault.noted:
        yield from (f"readiness of the {name} said nothing" for name in ("proxy", "agent") if name not in one.notes)
    yield from (f"the {name} took {mib} MiB" for name, mib in one.memory_mib.items() if mib > MEMORY_MIB_MAX)


def _books(folder: Path) -> tuple[int, int, int, list[dict[str, Any]]]:
    """Requests that were served and that the proxy's spool has events of, those that it declares as shed, how many
    Kafka has not, and their rows. Refused requests have events too: where they still lie there, they are told apart."""
    spool = Spool.open(folder)
    try:
        tallies = [tally for (_, topic), tally in spool.books.items() if topic == LLM_REQUESTS.topic]
    finally:
        spool.abandon()
    rows = spooled_rows(folder)
    refused = sum(row["status"] != "ok" for row in rows)
    booked, acknowledged = sum(tally.events for tally in tallies), sum(tally.acknowledged_events for tally in tallies)
    return booked - refused, sum(tally.shed_events for tally in tallies), booked - acknowledged, rows
