"""The sides of ``bench peers``: how each is started, killed and stopped, where its rows are, and what they say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from fleetpulse import stack
from fleetpulse.migrate.run import migrate
from lab.bench import compare, cpu, peer, peers_flink
from lab.bench.counterparts import environment
from lab.bench.peer import Peer
from lab.bench.peers_answers import GROUPING, LATENCY, LEVELS, TOKENS, TOPIC, Row, row
from lab.bench.stand import Stand
from runtime.kafka_clients import SESSION_TIMEOUT_MS
from runtime.local_stack import read_state
from schemas.codec import wire
from schemas.contract.headers import NATIVE, NDJSON
from schemas.contract.topics import BY_NAME, WINDOW_PARTIALS
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS, WINDOW_MS
from schemas.rows.tables import PARTIALS
from schemas.sketch import RELATIVE_ERROR_MAX

OUTPUT = "peers.rows"
FORMATS = {NATIVE: "Native", NDJSON: "NDJSON"}
RESTART_AFTER_S = 2.0
"""A supervisor's pause, as ours makes it."""
Seen = tuple[int, str | None, int]
"""Window, series (None: the row is one of several that add up), and events."""


class Side(Protocol):
    """One way to compute the answer."""

    how: str
    content_type: str
    output: str | None
    """The topic of its rows; None: they are in tables, asked by ``counted``."""
    error_allowed: float

    @property
    def name(self) -> str:
        """For people."""

    @property
    def group(self) -> str:
        """The consumer group that reads the source topic."""

    def start(self) -> None:
        """Begin to read, in a group of its own; the last run's rows are forgotten."""

    def pids(self) -> dict[str, int]:
        """Processes that count."""

    def kill(self) -> None:
        """SIGKILL."""

    def restart(self) -> None:
        """Start again after a kill, with what was kept."""

    def stop(self) -> None:
        """End it."""

    def tail(self) -> str:
        """The end of its log."""

    def seen(self, value: bytes, headers: dict[str, bytes]) -> Iterable[Seen]:
        """What a record of the output topic says of the progress."""

    def counted(self) -> Iterable[tuple[int, int]]:
        """Where there is no output topic: windows and their events by now."""

    def rows(self, records: Sequence[bytes]) -> Iterator[Row]:
        """The answer, from the values of the output topic."""


@dataclass(slots=True)
class _Process:
    """A child, started again with the same command line."""

    stand: Stand
    name: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.stand.log_dir / f"peers-{self.name}.log"

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def run(self, command: Sequence[str], added: dict[str, str]) -> None:
        with self.log.open("ab") as log:
            given = {**os.environ, **self.stand.environment, **added}
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=given, start_new_session=True
            )

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            cpu.stop(self.process, 30.0)


@dataclass(slots=True)
class Ours:
    """The windows job as production runs it, in Faust, with both of its grouping sets and all of its measures."""

    stand: Stand
    content_type: str
    engine: Peer
    output: str | None = WINDOW_PARTIALS
    error_allowed: float = RELATIVE_ERROR_MAX
    how: str = "jobs windows (Faust shell), transactions, both grouping sets, every measure and sketch"
    _child: _Process = field(init=False)

    def __post_init__(self) -> None:
        self._child = _Process(self.stand, "ours")

    @property
    def name(self) -> str:
        """By what it reads."""
        return f"fleetpulse, {FORMATS[self.content_type]}"

    @property
    def group(self) -> str:
        """That of the job."""
        return f"{self.stand.config.kafka.deployment}-windows"

    def start(self) -> None:
        migrate(self.stand.config.kafka, self.stand.config.clickhouse, dry_run=False)
        self.restart()

    def restart(self) -> None:
        self._child.run([sys.executable, "-m", "fleetpulse", "jobs", "windows", "--name", "peers"], {})

    def pids(self) -> dict[str, int]:
        return _pids(self._child)

    def kill(self) -> None:
        self._child.kill()

    def stop(self) -> None:
        self._child.stop()

    def tail(self) -> str:
        return self._child.tail()

    def seen(self, value: bytes, headers: dict[str, bytes]) -> Iterable[Seen]:
        if not value or headers["schema"] != PARTIALS[TOPIC].schema.encode():
            return
        block = wire.decode(NATIVE, value, PARTIALS[TOPIC].fields)
        groupings = block.labels("grouping")
        windows, events = block.numbers("window_ms").values, block.numbers("event_count").values
        for code, window_ms, count in zip(groupings.codes, windows, events, strict=True):
            if groupings.words[code] == GROUPING.name.encode():
                yield int(window_ms), None, int(count)

    def counted(self) -> Iterable[tuple[int, int]]:
        raise AssertionError

    def rows(self, records: Sequence[bytes]) -> Iterator[Row]:
        """Partial rows added up by the database."""
        self.engine.query(f"CREATE DATABASE IF NOT EXISTS {peer.DATABASE}")
        self.engine.insert(compare.ours_table(TOPIC), compare.ours_ddl(TOPIC), records)
        keys = ", ".join(GROUPING.dimensions)
        quantiles = compare.from_bins(f"sumMap({LATENCY}_bins)", LEVELS)
        found = self.engine.query(
            f"SELECT window_ms, [{_texts()}], sum(event_count), sum({LATENCY}_count), sum({LATENCY}_sum),"
            f" sum(ifNull({TOKENS}_sum, 0)), {quantiles} FROM {compare.ours_table(TOPIC)}"
            f" WHERE grouping = '{GROUPING.name}' GROUP BY window_ms, {keys}"
        )
        return _rows_of(found)


@dataclass(slots=True)
class ClickHouse:
    """ClickHouse's Kafka engine with one materialized view into an AggregatingMergeTree; rows are read from there."""

    stand: Stand
    content_type: str
    engine: Peer
    output: str | None = None
    error_allowed: float = peer.ACCURACY
    how: str = "Kafka table, one view, quantilesDD; blocks of 65,536 rows, flushed every second; the columns it needs"
    group: str = ""

    @property
    def name(self) -> str:
        """By what it reads."""
        return f"ClickHouse Kafka engine, {FORMATS[self.content_type]}"

    def start(self) -> None:
        self.group = f"peers-{time.time_ns()}"
        self.engine.query(f"CREATE DATABASE IF NOT EXISTS {peer.DATABASE}")
        for statement in statements(self.group, self.stand.config.kafka.bootstrap, self.content_type):
            self.engine.query(statement)

    def pids(self) -> dict[str, int]:
        state = read_state(self.stand.data_dir)
        return {} if state is None else {stack.CLICKHOUSE: state.processes[stack.CLICKHOUSE].pid}

    def kill(self) -> None:
        stack.kill(self.stand.data_dir, stack.CLICKHOUSE)

    def restart(self) -> None:
        stack.start_part(self.stand.data_dir, stack.CLICKHOUSE)

    def stop(self) -> None:
        self.engine.close()

    def tail(self) -> str:
        return ""

    def seen(self, value: bytes, headers: dict[str, bytes]) -> Iterable[Seen]:
        raise AssertionError

    def counted(self) -> Iterable[tuple[int, int]]:
        found = self.engine.query(f"SELECT window_ms, sum(events) FROM {peer.DATABASE}.peers_rows GROUP BY window_ms")
        return [(int(window_ms), int(events)) for window_ms, events in found]

    def rows(self, records: Sequence[bytes]) -> Iterator[Row]:
        keys, levels = ", ".join(GROUPING.dimensions), ", ".join(map(str, LEVELS))
        found = self.engine.query(
            f"SELECT window_ms, [{_texts()}], sum(events), sum(values), sum(total), sum(tokens),"
            f" quantilesDDMerge({peer.ACCURACY}, {levels})(state)"
            f" FROM {peer.DATABASE}.peers_rows GROUP BY window_ms, {keys}"
        )
        return _rows_of(found)


def _texts() -> str:
    return ", ".join(f"toNullable(toString({name}))" for name in GROUPING.dimensions)


def _rows_of(found: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    for window_ms, series, events, count, total, tokens, quantiles in found:
        key = (int(window_ms), tuple(series))
        known = tuple(quantiles) if count else (None,) * len(LEVELS)
        yield Row(key, int(events), int(count), int(total or 0), int(tokens or 0), known)


def statements(group: str, bootstrap: str, content_type: str) -> list[str]:
    """What makes the engine's tables and, last, its view: then it reads."""
    wanted = {"at_ms", LATENCY, TOKENS, *GROUPING.dimensions}
    columns = ", ".join(f"{f.name} {f.kind.value}" for f in BY_TOPIC[TOPIC].fields if f.name in wanted)
    keys, queue, rows = ", ".join(GROUPING.dimensions), f"{peer.DATABASE}.peers_queue", f"{peer.DATABASE}.peers_rows"
    settings = {
        "kafka_broker_list": bootstrap,
        "kafka_topic_list": TOPIC,
        "kafka_group_name": group,
        "kafka_format": "Native" if content_type == NATIVE else "JSONEachRow",
        "kafka_max_block_size": 65_536,
        "kafka_poll_max_batch_size": 65_536,
        "kafka_flush_interval_ms": 1_000,
        "input_format_skip_unknown_fields": 1,
    }
    levels = ", ".join(map(str, LEVELS))
    select = (
        f"SELECT intDiv(at_ms, {WINDOW_MS}) * {WINDOW_MS} AS window_ms, {keys},"
        f" sumSimpleState(toUInt64(1)) AS events, sumSimpleState(toUInt64(isNotNull({LATENCY}))) AS values,"
        f" sumSimpleState({LATENCY}) AS total, sumSimpleState({TOKENS}) AS tokens,"
        f" quantilesDDState({peer.ACCURACY}, {levels})({LATENCY}) AS state FROM {queue} GROUP BY window_ms, {keys}"
    )
    given = ", ".join(f"{name} = {value!r}" for name, value in settings.items())
    return [
        f"CREATE TABLE {queue} ({columns}) ENGINE = Kafka SETTINGS {given}",
        f"CREATE TABLE {rows} ENGINE = AggregatingMergeTree ORDER BY (window_ms, {keys})"
        f" SETTINGS allow_nullable_key = 1 EMPTY AS {select}",
        f"CREATE MATERIALIZED VIEW {peer.DATABASE}.peers_view TO {rows} AS {select}",
    ]


@dataclass(slots=True)
class Program:
    """A peer's program in an environment of its own; it writes rows as JSON to a topic."""

    stand: Stand
    log: str
    name: str
    how: str
    command: list[str]
    content_type: str = NDJSON
    output: str | None = OUTPUT
    error_allowed: float = 0.0
    group: str = ""
    _child: _Process = field(init=False)

    def __post_init__(self) -> None:
        self._child = _Process(self.stand, self.log)

    @property
    def _folder(self) -> Path:
        return self.stand.data_dir / "peers-state"

    def start(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self.group = f"peers-{time.time_ns()}"
        self.restart()

    def restart(self) -> None:
        self._child.run([*self.command, json.dumps(self._settings())], {})

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap": self.stand.config.kafka.bootstrap,
            "group": self.group,
            "source": TOPIC,
            "output": OUTPUT,
            "partitions": BY_NAME[TOPIC].partitions,
            "folder": str(self._folder),
            "window_ms": WINDOW_MS,
            "grace_ms": DEFAULT_LIMITS.out_of_orderness_ms,
            "dimensions": GROUPING.dimensions,
            "levels": LEVELS,
            "session_ms": SESSION_TIMEOUT_MS,
        }

    def pids(self) -> dict[str, int]:
        return _pids(self._child)

    def kill(self) -> None:
        self._child.kill()

    def stop(self) -> None:
        self._child.stop()

    def tail(self) -> str:
        return self._child.tail()

    def seen(self, value: bytes, headers: dict[str, bytes]) -> Iterable[Seen]:
        one = row(value)
        return [(one.key[0], json.dumps(one.key[1]), one.events)]

    def counted(self) -> Iterable[tuple[int, int]]:
        raise AssertionError

    def rows(self, records: Sequence[bytes]) -> Iterator[Row]:
        return map(row, records)


def _pids(child: _Process) -> dict[str, int]:
    alive = child.process is not None and child.process.poll() is None
    return {child.name: child.process.pid} if alive and child.process is not None else {}


HERE = Path(__file__).resolve().parent
HOW = {
    "quix": (
        "Quix Streams",
        "exactly once, commits every 2 s, static member; RocksDB; a host's record reduced at once",
    ),
    "flink": ("Flink SQL", "mini cluster in one JVM (-Xmx2g); state on the heap, checkpoints every 2 s, exactly once"),
    "faust": ("plain Faust", "static member; windowed table in memory with its changelog; changed rows sent every 2 s"),
}


def sides(stand: Stand, wanted: Sequence[str], environments: Path, say: Any) -> Iterator[Side]:
    """The sides that were asked for, ours first."""
    engine = Peer(stand.config, stand.clickhouse_pid, (TOPIC,))
    yield Ours(stand, NATIVE, engine)
    yield Ours(stand, NDJSON, engine)
    for name in wanted:
        if name == "clickhouse":
            yield ClickHouse(stand, NATIVE, engine)
            yield ClickHouse(stand, NDJSON, engine)
        elif name == "flink":
            yield Program(stand, name, *HOW[name], peers_flink.command(environments, say))
        else:
            python = environment(f"peers-{name}", environments, say) / "python"
            yield Program(stand, name, *HOW[name], [str(python), str(HERE / f"peers_{name}.py")])
