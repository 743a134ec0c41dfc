"""Receiver: writes requests that applications of this host report to the spool.

Datagrams gather for ``linger_ms`` or until a batch is full; then they are checked, folded to columns and spooled in
slices. The socket is drained between slices, because the kernel queues few datagrams for a busy reader
(``net.unix.max_dgram_qlen``, 10 by default). Requests that clients report as dropped are declared as shed.

Books: datagrams = taken + absorbed (by other reports: ``once``) + held + farewells + claims + rejected by reason.
Requests of clients = taken + absorbed + held + lost (declared as shed) + missing (a gauge: late datagrams fill gaps).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from producers.batch import BatchBuilder
from producers.identity.host_file import claims_beside, default_socket
from producers.identity.joiner import from_elsewhere
from producers.publish.puts import Puts
from producers.receiver.claimed import Report, claimed_reports
from producers.receiver.claims import serving_claims
from producers.receiver.client_fields import Row, parse_client_fields
from producers.receiver.datagram import CLAIM, FAREWELL, Datagrams, read, texts_of, with_senders
from producers.receiver.events import EVENTS, SeriesBound, rows_of
from producers.receiver.fold import NOBODY, Elsewhere, Folded, Judge, Where, fold
from producers.receiver.gaps import Arrival, Gaps
from producers.receiver.intake import Intake
from producers.receiver.listening import listen
from producers.receiver.once import Once
from runtime.counters import Counters
from runtime.edge_config import ReceiverConfig
from schemas.events.event_types import LLM_REQUESTS
from schemas.fields import Event
from schemas.limits import DEFAULT_LIMITS

_log = logging.getLogger(__name__)

SLICE_DATAGRAMS = DEFAULT_LIMITS.batch_events_max
"""Datagrams per slice and record. A slice costs some 2 ms of array calls, whatever its length."""
SLICE_BYTES = 2 * 1024 * 1024
"""Bytes of datagrams per slice; folding takes some 12 times as much memory for a moment."""
LOOK_S = 0.1
"""How often reports that are held are looked at, at most."""
TOPIC = LLM_REQUESTS.topic


async def run_receiver(
    publisher: Puts, settings: ReceiverConfig, stop: asyncio.Event, counters: Counters, *, where: Where | None = None
) -> None:
    """Take requests until ``stop``; datagrams that the socket accepted before are spooled before this returns.

    ``where``: labels that the agent gives every request; None: this host's name. Raises ConfigError when the socket or
    the port cannot be opened.
    """
    where = where or Where(socket.gethostname())
    path = settings.socket or default_socket(os.environ)
    opened = listen(path, settings.socket_group)
    _log.info("receiver listening", extra={"socket": str(path), "http_port": settings.http_port})
    async with contextlib.AsyncExitStack() as open_now:
        open_now.callback(opened.close)
        if settings.http_port is not None:
            from producers.receiver.http import serve

            await open_now.enter_async_context(serve(publisher, settings, where, counters))
        receiver = Receiver(publisher, settings, opened, counters, where)
        await open_now.enter_async_context(serving_claims(claims_beside(path), settings.socket_group, receiver.once))
        await receiver.run(stop, path)


class Receiver:
    """Reads the datagrams of one socket into the spool."""

    def __init__(
        self, publisher: Puts, settings: ReceiverConfig, opened: socket.socket, counters: Counters, where: Where
    ) -> None:
        self._publisher = publisher
        self._settings = settings
        self._socket = opened
        self._counters = counters
        self._where = where
        self._intake = Intake(opened, settings.buffer_bytes)
        self._gaps = Gaps(settings.clients_max)
        self.once = Once()
        self._lost = 0
        self._duplicates = 0
        self._events_gaps = {kind: Gaps(settings.clients_max) for kind in EVENTS}
        self._series = SeriesBound(settings.metric_series_max)
        self._arrived = False
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._reading = False

    async def run(self, stop: asyncio.Event, path: Path) -> None:
        """Read until ``stop``, then stop accepting and drain the socket."""
        self._read_on()
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: self._due.set())
        try:
            while not stop.is_set():
                await self._due.wait()
                self._due.clear()
                self._rest()
                if self._arrived:
                    await self._spool()
                await self._pass(self.once.due(time.monotonic()))
                if self.once.held:
                    self._wake_in(max(LOOK_S, self._settings.linger_ms / 1_000))
        finally:
            stopping.cancel()
            self._rest()
            self._read_no_more()
        refuse_more(self._socket, path)
        while self._intake.drain(self._settings.batch_datagrams_max) or len(self._intake):
            await self._spool(reading=False)
        await self._pass(self.once.due(None))

    def _wake_in(self, pause_s: float) -> None:
        """One timer, not a task that waits: most of what a few datagrams cost is waking up."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(pause_s, self._due.set)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _read_on(self) -> None:
        if not self._reading:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._ready)
            self._reading = True

    def _read_no_more(self) -> None:
        if self._reading:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._reading = False

    def _ready(self) -> None:
        room = self._settings.batch_datagrams_max - len(self._intake)
        if room > 0 and self._intake.drain(room):
            self._arrived = True
            self._wake_in(self._settings.linger_ms / 1_000)
        if len(self._intake) >= self._settings.batch_datagrams_max or self._intake.full:
            self._due.set()
            self._read_no_more()  # it would report the same datagrams again and again

    async def _spool(self, *, reading: bool = True) -> None:
        """Check, fold and spool what has gathered."""
        self._arrived = False
        rejected = {"too_long": self._intake.too_long} if self._intake.too_long else {}
        self._intake.too_long = 0
        taken, ends, pids = self._intake.take()
        elsewhere = self._elsewhere(self._intake.networks)
        if (reports := claimed_reports(taken, ends, pids, self.once)) is not None:
            if reading:
                self._read_on()
            self._count(rejected)
            self._absorb(reports, elsewhere)
            return
        buffer, places, senders = np.frombuffer(taken, np.uint8), np.array(ends, np.int64), np.array(pids, np.uint32)
        with_senders(buffer, places, senders)
        if reading:
            self._read_on()
        self._count(rejected)
        for begin, part in slices(places):
            inside, its, senders = buffer[begin : int(part[-1])], senders[: len(part)], senders[len(part) :]
            await self._slice(inside, read(inside, part - begin, its), elsewhere, reading=reading)

    def _elsewhere(self, networks: Mapping[int, int | None]) -> Elsewhere:
        where = self._where
        return {pid: where.engine_elsewhere(pid, at) for pid, at in networks.items() if not where.means_here(at)}

    async def _slice(
        self, buffer: npt.NDArray[np.uint8], found: Datagrams, elsewhere: Elsewhere, *, reading: bool
    ) -> None:
        found = self._without_claims(buffer, found)
        of_events = np.isin(found.heads["kind"], list(EVENTS))
        if of_events.any():
            await self._events(buffer, found.where(of_events))
            found = replace(found.where(~of_events), rejected=found.rejected)
        keep = self._follow(found)
        folded = self._fold(buffer, found.where(keep) if not keep.all() else found, self._judge, elsewhere)
        if reading:
            self._ready()  # the kernel queues few datagrams
        farewells = int((found.heads["kind"] == FAREWELL).sum())
        self._count({**found.rejected, "broken_json": folded.broken, "absorbed": folded.absorbed})
        self._shed(folded.broken)
        await self._put(folded)
        self._count({"farewell": farewells})  # whoever sees it sees the requests before it as taken
        if reading:
            self._ready()

    def _without_claims(self, buffer: npt.NDArray[np.uint8], found: Datagrams) -> Datagrams:
        """The others, once those requests are expected."""
        claims = found.heads["kind"] == CLAIM
        if not claims.any():
            return found
        rows, sound = parse_client_fields(texts_of(buffer, found.where(claims)))
        for row in rows:
            self.once.expect(row, time.monotonic())
        self._count({"claim": len(rows), "broken_json": int((~sound).sum())})
        return replace(found.where(~claims), rejected=found.rejected)

    def _absorb(self, reports: Sequence[Report], elsewhere: Elsewhere) -> None:
        """Give reports of claimed requests to the proxies that claimed them."""
        order = sorted(range(len(reports)), key=lambda at: reports[at].arrival.client)  # as ``follow``
        keep = self._gaps.take(reports[at].arrival for at in order)
        self._followed()
        kept = [reports[at] for at in sorted(compress(order, keep))]
        for report in kept:
            self._where.names.hash_user(report.row)
            if report.pid in elsewhere:
                from_elsewhere(report.row, elsewhere[report.pid])
        _, absorbed = self._judge([report.row for report in kept], lambda _at: b"")
        self._count({"absorbed": absorbed})

    async def _events(self, buffer: npt.NDArray[np.uint8], found: Datagrams) -> None:
        """Steps of training and metrics: few, and so as rows."""
        for kind, gaps in self._events_gaps.items():
            datagrams = found.where(found.heads["kind"] == kind)
            lost, duplicates = gaps.lost, gaps.duplicates
            fresh, event = datagrams.where(follow(datagrams, gaps)), EVENTS[kind]
            self._count({"duplicate": gaps.duplicates - duplicates})
            self._shed(gaps.lost - lost, event.topic)
            try:
                sent = rows_of(kind, buffer, fresh, self._where, self._series.takes)
            except Exception:
                self._failed(len(fresh), event.topic)
                continue
            self._count({"broken_json": sent.broken, "series": sent.beyond})
            self._shed(sent.broken + sent.beyond, event.topic)
            self._count({"taken": await self._put_rows(event, sent.rows)})

    def _judge(self, sent: list[dict[str, Any]], datagram: Callable[[int], bytes]) -> tuple[list[bool], int]:
        return self.once.judge(sent, datagram, time.monotonic())

    async def _pass(self, datagrams: list[bytes]) -> None:
        """Spool reports that were held, and that nobody took over."""
        self._count({"absorbed": self.once.absorbed})
        self.once.absorbed = 0
        if not datagrams:
            return
        ends = np.cumsum([len(each) for each in datagrams], dtype=np.int64)
        buffer = np.frombuffer(b"".join(datagrams), np.uint8)
        for begin, part in slices(ends):
            inside, places = buffer[begin : int(part[-1])], part - begin
            await self._put(self._fold(inside, read(inside, places), hashed=True))

    def _fold(
        self,
        buffer: npt.NDArray[np.uint8],
        found: Datagrams,
        judge: Judge | None = None,
        elsewhere: Elsewhere = NOBODY,
        *,
        hashed: bool = False,
    ) -> Folded:
        try:
            return fold(buffer, found, self._where, judge, elsewhere, hashed=hashed)
        except Exception:
            self._failed(len(found), TOPIC)
            return Folded((), (), 0)

    def _failed(self, events: int, topic: str) -> None:
        """Called while the exception is handled: a bug costs what was looked at together, not what comes next."""
        _log.exception("folding datagrams failed; declared as shed", extra={"requests": events})
        self._count({"internal": events})
        self._shed(events, topic)

    def _follow(self, found: Datagrams) -> npt.NDArray[np.bool_]:
        """Which requests are new. Declares what clients dropped as shed."""
        keep = follow(found, self._gaps)
        self._followed()
        return keep

    def _followed(self) -> None:
        """Count what sequences say since the last time."""
        gaps = self._gaps
        self._count({"duplicate": gaps.duplicates - self._duplicates})
        self._shed(gaps.lost - self._lost)
        self._counters.add("receiver_lost", gaps.lost - self._lost)
        self._lost, self._duplicates = gaps.lost, gaps.duplicates
        self._counters.set("receiver_clients", gaps.clients)
        self._counters.set("receiver_missing", gaps.missing)

    async def _put(self, folded: Folded) -> None:
        for key, block in folded.blocks:
            await self._publisher.put(TOPIC, key, block)
        unfit = await self._put_rows(LLM_REQUESTS, folded.unfit)
        self._count({"taken": folded.events + unfit})

    async def _put_rows(self, event: Event, rows: Sequence[Row]) -> int:
        """How many of them were taken: all or none."""
        if not rows:
            return 0
        builder = BatchBuilder(event)
        try:
            batches = [batch for row in rows for batch in builder.add(row, 0.0)] + builder.flush()
        except Exception:
            self._failed(len(rows), event.topic)
            return 0
        for batch in batches:
            await self._publisher.put(event.topic, batch.key, batch)
        self._shed(builder.oversized_events, event.topic)
        return len(rows)

    def _shed(self, events: int, topic: str = TOPIC) -> None:
        if events:
            self._publisher.shed(topic, events)

    def _count(self, rejected: dict[str, int]) -> None:
        for reason, count in rejected.items():
            if count:
                self._counters.add("receiver_datagrams", count, outcome=reason)


def slices(ends: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Datagrams in order, as many together as the limits allow: where the first begins, where each ends."""
    start = 0
    while start < len(ends):
        begin = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, begin + SLICE_BYTES, side="right"))
        stop = max(start + 1, min(fitting, start + SLICE_DATAGRAMS))
        yield begin, ends[start:stop]
        start = stop


def follow(found: Datagrams, gaps: Gaps) -> npt.NDArray[np.bool_]:
    """Which requests are new. One client's datagrams are looked at together: nearly always they are one run."""
    heads = found.heads
    order = np.lexsort((heads["start_ns"], heads["pid"]))  # stable: in order of arrival within a client
    heads = heads[order]
    begins = np.ones(len(heads), np.bool_)
    same = heads["kind"][1:] == heads["kind"][:-1]
    for name, step in (("pid", 0), ("start_ns", 0), ("lost", 0), ("seq", 1)):
        same &= heads[name][1:] == heads[name][:-1] + np.uint8(step)
    begins[1:] = ~same | (heads["kind"][1:] == FAREWELL)
    first = np.flatnonzero(begins)
    more = np.diff(first, append=len(heads)) - 1
    keep = np.empty(len(heads), np.bool_)
    keep[order] = gaps.take_runs(zip(_arrivals(heads[first]), more.tolist(), strict=True))
    return keep


def _arrivals(heads: npt.NDArray[Any]) -> Iterator[Arrival]:
    names = ("pid", "start_ns", "seq", "lost", "lost_run", "kind")
    columns = (heads[name].tolist() for name in names)
    return (
        Arrival((pid, start_ns), seq, lost, run, kind == FAREWELL)
        for pid, start_ns, seq, lost, run, kind in zip(*columns, strict=True)
    )


def refuse_more(opened: socket.socket, path: Path) -> None:
    """Stop accepting: senders get an error; datagrams accepted before can still be read."""
    with contextlib.suppress(OSError):
        path.unlink()
    with contextlib.suppress(OSError):
        opened.shutdown(socket.SHUT_RD)
