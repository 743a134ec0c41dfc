"""Engine collector: scrapes one engine at every tick; emits its samples, and an event when its registration changes.

An engine that does not answer is no failure of the collector: failures are counted, ``lost`` is emitted after
``LOST_AFTER`` of them, and counters continue from their last values when it answers again. A page of an unknown engine
raises ``UnknownEngineError``, so that the agent logs it and backs off; an address that is only probed for engines is
skipped instead. An address where several processes answer in turn is of no engine either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from producers.collector import Collected, Collector, FieldErrors, Identity, Row
from producers.engines.facts import (
    DOCUMENTS,
    NO_FACTS,
    Document,
    Facts,
    cache_of_samples,
    excerpt,
    facts_of,
    facts_of_samples,
    facts_of_sizes,
    first_known,
    promising,
    reserved_of_samples,
)
from producers.engines.fetch import Fetch, FetchError, FetchLimits, fetch
from producers.engines.mappings import BY_KIND, ENGINES, EngineKind
from producers.engines.model_files import read_folder
from producers.engines.placement import HostPlacement
from producers.engines.reading import Reading, UnknownEngineError, confirm, read
from producers.engines.registry import (
    Registration,
    announcement,
    engine_of,
    event_row,
    load_ms_of,
    registration_of,
    remembered,
    started_anew,
)
from producers.engines.remembered import EngineMemory
from producers.engines.rows import Known, engine_rows, restart
from producers.engines.starts import TURNS, Starts
from producers.engines.target import EngineTarget
from producers.engines.weights import UNKNOWN, Size, cache_bytes_per_token
from producers.exposition import Sample, parse
from runtime.clock import Clock, SystemClock
from runtime.counters import COUNTERS, Counters
from schemas.events.event_types import ENGINE_EVENTS, ENGINE_SAMPLES

_log = logging.getLogger(__name__)

METRICS_LIMITS = FetchLimits(time_ms=2_000, bytes_max=8 * 1024 * 1024)
FACTS_LIMITS = FetchLimits(time_ms=500, bytes_max=1024 * 1024)
"""Facts are fetched in the same tick as the metrics, up to three documents: all within the agent's time limit."""
FACTS_EVERY_MS = 60_000
SEEK_EVERY_MS, KNOCK_EVERY_MS = 25_000, 4_000
"""How often an address is tried that is not configured as an engine: of somebody's server, whose page may be of any
size, and where nobody listens, which costs a refused connection."""
LOST_AFTER = 3
OTHER_PATH = frozenset({"status", "broken"})
"""Why a page is not had, where the server may have it at another path."""
UNREAD = frozenset({"timeout", "too_large", "broken"})
"""Why the page of a server that was only sought stays unread, though the server is there."""


class EngineCollector:
    """Collector of one engine. ``registry`` is shared by all of a host. ``state`` is the folder for what is kept over a
    restart of the agent; None: nothing is kept."""

    def __init__(
        self,
        target: EngineTarget,
        identity: Identity,
        registry: HostPlacement,
        period_ms: int,
        *,
        fetch: Fetch = fetch,
        clock: Clock | None = None,
        counters: Counters = COUNTERS,
        read_folder: Callable[[str | None, int | None], tuple[Any, Size]] = read_folder,
        state: Path | None = None,
    ) -> None:
        self.name = f"engine {target.engine_id}"
        self.period_ms = period_ms
        self._target = target
        self._labels = dict(identity.labels)
        self._registry = registry
        self._fetch = fetch
        self._clock = clock or SystemClock()
        self._errors = FieldErrors("engine", ENGINE_SAMPLES, counters)
        self._url: str | None = None
        self._known: Known | None = None
        self._read_ms = 0
        self._starts = Starts()
        self._facts: Facts = NO_FACTS
        self._facts_due_ms = 0
        self._registration: Registration | None = None
        self._failures = 0
        self._seek_due_ms = 0
        self._unread: str | None = None
        self._silent_ms: int | None = None
        self._load_ms: int | None = None
        self._read_folder = read_folder
        self._folder: tuple[str | None, Any, Size] = (None, None, UNKNOWN)
        self._memory = None if state is None else EngineMemory(state / "engine_counters", target.engine_id)
        if self._memory is not None and (kept := self._memory.load(self._moment_ms())) is not None:
            self._known, self._read_ms = kept

    def collect(self, at_ms: int) -> Sequence[Collected]:
        """Samples of every model the engine serves, and what changed. Raises ``UnknownEngineError``."""
        moment_ms = self._moment_ms()
        if self._known is None and self._target.sought and moment_ms < self._seek_due_ms:
            return []
        self._seek_due_ms = moment_ms + SEEK_EVERY_MS
        try:
            reading, samples = self._scrape_one(moment_ms)
        except (FetchError, UnknownEngineError) as error:
            self._silent_ms = at_ms if isinstance(error, FetchError) else None
            if isinstance(error, FetchError) and error.reason == "refused":
                self._seek_due_ms = moment_ms + KNOCK_EVERY_MS
            return self._collected(at_ms, [], self._failed(error))
        restarted = self._known is not None and restart(self._known, reading)
        if self._known is None or restarted:
            self._load_ms = load_ms_of(reading.started_at_s, self._silent_ms, at_ms)
        found = [("found", "the engine answers again")] if self._failures >= LOST_AFTER and self._registration else []
        self._failures = 0
        self._registry.saw_engine(self._target)
        self._learn(reading, samples, moment_ms, restarted=restarted)
        news = self._announced(reading)
        rows, self._known = engine_rows(self._followed(reading), reading, at_ms, moment_ms)
        self._read_ms = at_ms
        if self._memory is not None:
            self._memory.save(self._known, at_ms)
        self._identify(self._known, at_ms)
        return self._collected(at_ms, self._samples(rows, one=len(reading.fields) == 1), found + news)

    def succeed(self, before: Collector) -> None:
        """The engine of ``before``, in another container: its counters, its registration and its failures go on."""
        if isinstance(before, EngineCollector):
            self._known, self._read_ms, self._starts = before._known, before._read_ms, before._starts
            self._registration, self._load_ms = before._registration, before._load_ms
            self._failures, self._silent_ms = before._failures, before._silent_ms

    def close(self) -> None:
        """Nothing is held open between two scrapes, but for the memory."""
        if self._memory is not None:
            self._memory.close()

    # Scraping

    def _moment_ms(self) -> int:
        return round(self._clock.monotonic_s() * 1_000)

    def _scrape_one(self, moment_ms: int) -> tuple[Reading, Sequence[Sample]]:
        """As ``_scrape``; ``UnknownEngineError`` too where several processes take turns."""
        reading, samples = self._scrape()
        if self._starts.take_turns(reading.started_at_s, moment_ms):
            raise UnknownEngineError({sample.name for sample in samples}, TURNS)
        return reading, samples

    def _scrape(self) -> tuple[Reading, Sequence[Sample]]:
        failure: FetchError | UnknownEngineError | None = None
        for url in [self._url] if self._url else addresses(self._target):
            try:
                reading, samples = self._scrape_at(url)
            except FetchError as error:
                failure = failure or error
                if error.reason not in OTHER_PATH:
                    break  # another path of the same server would answer no better
            except UnknownEngineError as error:
                failure = error
            else:
                self._url = url
                return reading, samples
        assert failure is not None, "there is at least one address"
        raise failure

    def _scrape_at(self, url: str) -> tuple[Reading, Sequence[Sample]]:
        text = self._fetch(url, METRICS_LIMITS, self._target.api_key).decode("utf-8", "replace")
        kind = self._known.kind if self._known else None
        if kind is None and self._target.sought and not promising(text):
            raise UnknownEngineError(())  # somebody else's page, of any size, every half minute
        found = self._read(excerpt(text, kind), BY_KIND[kind]) if kind else None
        if found is None or not found[0].fields:  # the first time, or it is another engine now
            found = self._read(text, self._target.engine)
            if self._target.engine is not None:
                names = (sample.name for sample in found[1])
                confirm(self._target.engine, names, whole=found[0].whole or not text)
        for name, times in found[0].wrong.items():
            self._errors.count(name, times)
        return found

    def _read(self, text: str, engine: EngineKind | None) -> tuple[Reading, Sequence[Sample]]:
        scrape = parse(text)
        if scrape.bad:
            self._errors.count("line", len(scrape.bad))
        whole = not scrape.bad and text.endswith("\n")  # a page that ends within a line was cut
        return read(scrape.samples, engine, whole=whole), scrape.samples

    def _failed(self, error: FetchError | UnknownEngineError) -> list[tuple[str, str]]:
        if isinstance(error, UnknownEngineError) or error.reason in OTHER_PATH:
            self._url = None  # another engine may have come, whose metrics are elsewhere
        if self._known is None and self._target.sought:
            self._note_unread(error)
            return []
        self._registry.silent_engine(self._target)
        self._registry.engines.silent(self._target.engine_id)
        self._errors.count(error.reason if isinstance(error, FetchError) else "unknown engine")
        if self._known is None and isinstance(error, UnknownEngineError):
            raise error
        self._failures += 1
        self._facts_due_ms = 0  # whatever answers next may be another one
        if self._failures != LOST_AFTER:
            return []
        _log.warning("engine not responding, retrying", extra={"engine": self._target.engine_id, "why": str(error)})
        if self._target.sought:
            self._registry.lost_engine(self._target.engine_id)
        return [("lost", str(error))] if self._registration else []

    def _note_unread(self, error: FetchError | UnknownEngineError) -> None:
        """Once a reason: a server that is there but does not hand over its page may be an engine under load."""
        if isinstance(error, FetchError) and error.reason in UNREAD and error.reason != self._unread:
            self._unread = error.reason
            _log.info("server on a well-known port not read, retrying", extra={"why": str(error)})

    # Facts

    def _learn(self, reading: Reading, samples: Sequence[Sample], moment_ms: int, *, restarted: bool) -> None:
        """Fetch the engine's facts once in ``FACTS_EVERY_MS``, and after every restart."""
        if moment_ms < self._facts_due_ms and not restarted:
            return
        self._facts_due_ms = moment_ms + FACTS_EVERY_MS
        self._registry.saw_reservation(self._target.engine_id, reserved_of_samples(samples))
        fetched = [self._fetch_facts(document) for document in DOCUMENTS[reading.kind]]
        labelled = {identity[0] for identity in reading.fields}
        only = Facts(model=next(iter(labelled))) if len(labelled) == 1 else NO_FACTS
        facts = first_known(only, facts_of_samples(samples), *fetched)
        self._facts = first_known(facts, self._sizes(facts, samples, again=restarted))

    def _sizes(self, facts: Facts, samples: Sequence[Sample], *, again: bool) -> Facts:
        """What follows from the cache's blocks, and from the files of an engine of this host, read once a process."""
        tokens, cache_dtype = cache_of_samples(samples)
        if again or facts.folder != self._folder[0]:
            folder = facts.folder if self._target.local else None
            self._folder = (facts.folder, *self._read_folder(folder, self._target.pid))
        _, config, size = self._folder
        per_token = cache_bytes_per_token(config, cache_dtype) if tokens is not None else None
        return facts_of_sizes(
            parameters=size.parameters,
            active_parameters=size.active_parameters,
            weight_bytes=size.weight_bytes,
            kv_cache_bytes=None if tokens is None or per_token is None else tokens * per_token,
            kv_cache_tokens=tokens,
        )

    def _fetch_facts(self, document: Document) -> Facts:
        try:
            body = self._fetch(self._target.server + document.url_path, FACTS_LIMITS, self._target.api_key)
            return facts_of(document, orjson.loads(body))
        except (FetchError, orjson.JSONDecodeError) as error:
            _log.debug("engine facts are not available", extra={"engine": self._target.engine_id, "why": str(error)})
            return NO_FACTS

    def _announced(self, reading: Reading) -> list[tuple[str, str]]:
        before, matched = self._registration, self._registry.is_matched(self._target.engine_id)
        gpu_uuids, group = self._registry.of(self._target.engine_id)
        if before is not None and not matched and not gpu_uuids:
            group = before.placement_group  # it answers again; its group is known with its processes
        now = registration_of(self._target, reading.kind, self._facts, gpu_uuids, group, self._load_ms)
        self._registration = remembered(before, now)
        event = announcement(before, self._registration)
        return [event] if event else []

    def _identify(self, known: Known, at_ms: int) -> None:
        """Let the host's edges know which engine answers under these addresses, once its group is known. The start of
        one that was known before at once: its first requests do not wait for its group."""
        target, engines, registration = self._target, self._registry.engines, self._registration
        before = engines.directory.named(target.engine_id)
        if registration is not None and self._registry.is_matched(target.engine_id):
            names = engines.addresses(target.remote_name, target.port, target.addresses)
            engines.saw(engine_of(registration, names, known, before, at_ms))
        elif before is not None:
            engines.saw(started_anew(before, known, at_ms))

    # Rows

    def _followed(self, reading: Reading) -> Known | None:
        """What to count from. None where the process is another one that was there at the reading before already: then
        most of what it has counted is older than that."""
        known, started_at_s = self._known, reading.started_at_s
        if known is None or None in (known.started_at_s, started_at_s) or started_at_s == known.started_at_s:
            return known
        return known if started_at_s is not None and started_at_s * 1_000 >= self._read_ms else None

    def _samples(self, rows: list[Row], *, one: bool) -> list[Row]:
        """What configuration and facts say of the model goes to the rows of an engine that serves ``one``."""
        place = {"engine_id": self._target.engine_id, **self._registered("placement_group")}
        known = self._registered("model", "model_version", "precision")
        if one:
            rows = [row | {name: row.get(name) or value for name, value in known.items()} for row in rows]
        return [{"origin": "measured"} | self._labels | place | self._errors.checked(row) for row in rows]

    def _registered(self, *names: str) -> Row:
        return {name: getattr(self._registration, name, None) for name in names}

    def _collected(self, at_ms: int, samples: list[Row], events: list[tuple[str, str]]) -> list[Collected]:
        common = {"at_ms": at_ms, "origin": "measured"}
        engine = self._registration
        rows = [common | self._labels | event_row(engine, kind, message) for kind, message in events] if engine else []
        for row in rows:
            facts = {"engine": row["engine_id"], "kind": row["kind"], "why": row["message"]}
            _log.info("engine event", extra=facts)
        collected = [Collected(ENGINE_EVENTS, rows), Collected(ENGINE_SAMPLES, samples)]
        return [each for each in collected if each.rows]


def addresses(target: EngineTarget) -> list[str]:
    """Where the metrics may be: the address itself where it has a path, else the usual paths of the engine."""
    if urlsplit(target.url).path.strip("/"):
        return [target.url]
    engines = [target.engine] if target.engine else list(ENGINES)
    paths = dict.fromkeys(path for engine in engines if engine for path in engine.metrics_paths)
    order = paths if target.engine else sorted(paths, key=len)
    return [target.url.rstrip("/") + path for path in order]
