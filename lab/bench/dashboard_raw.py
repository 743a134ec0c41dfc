"""Single events of a big fleet, drawn by the database itself: readings, processes, requests, slowest ones, faults,
changes of engines, rejections.

Readings at 1 Hz are those of the last minutes; requests of an hour are a few inserted as the sink does, once more under
other ids. The slowest of windows stand where a query reads windows; where it reads hours there are hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from lab.bench.dashboard_fleet import (
    ENGINES_PER_HOST,
    EVENT_KINDS,
    EVENTS_PER_WINDOW,
    GPUS_PER_HOST,
    LEVELS,
    Drawn,
    Fleet,
    between,
    engine_of,
    gpu_of,
    host_of,
    one_of,
    words,
)
from lab.bench.dashboard_sums import BOOKED
from lab.bench.dashboard_windows import Span
from lab.bench.workload import Profile, Workload
from schemas.codec import native
from schemas.codec.block import Block, Column, Labels, Numbers
from schemas.contract.verdicts import REASONS
from schemas.ddl import slowest_hours
from schemas.ddl.stored import RAW
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import HOUR_MS, MINUTE_MS, SECOND_MS, WINDOW_MS
from schemas.rows.tables import EXEMPLARS_MAX
from sinks.database import SinkDatabase
from sinks.landing import Insert

READINGS_MS = 10 * MINUTE_MS
"""So much of the raw readings of GPUs and engines."""
TIMES_REQUESTS = 60
"""Each drawn request stands for so many, in as many seconds; no more seconds than these are drawn."""
REJECTED = 5_000
_CHUNK_MS = 10 * MINUTE_MS
_READ_MS = 10 * SECOND_MS
_COPIES = 6
"""A statement is short enough to be answered in time by a busy machine."""
_FAULTS_MS = WINDOW_MS // EVENTS_PER_WINDOW
_NOTED = "{ 'host': 'host-0001', 'power_mw': -1, 'note': '', 'bytes': '"


def raw(fleet: Fleet, span: Span, spans_ms: Sequence[int]) -> Iterator[tuple[str, Drawn]]:
    """All of it, and what it is. ``spans_ms`` are the ranges that end with ``span`` and are queried."""
    recent = range(max(span.from_ms, span.to_ms - READINGS_MS), span.to_ms, _READ_MS)
    yield from (("readings of GPUs", _gpu_samples(fleet, at_ms)) for at_ms in recent)
    yield from (("readings of engines", _engine_samples(fleet, at_ms)) for at_ms in recent)
    yield from (("processes on GPUs", _gpu_processes(fleet, at_ms)) for at_ms in recent)
    yield from (("devices of hosts", _host_devices(fleet, at_ms)) for at_ms in recent)
    yield "changes of engines", _engine_events(fleet, span)
    yield "faults", _faults(fleet, span)
    for at_ms in sorted(_windows_read(span, spans_ms)):
        yield from (("slowest of windows", _slowest(fleet, metric, at_ms)) for metric in ("ttft", "e2e"))
    yield from (("slowest of hours", one) for one in _slowest_hours(fleet, span))
    yield "rejected", _rejected(span)
    yield "books of producers", _producers(fleet, span)


def more_requests(fleet: Fleet) -> Iterator[str]:
    """Statements after which every request that is there stands for ``TIMES_REQUESTS``."""
    for first in range(1, TIMES_REQUESTS, _COPIES):
        yield _more_requests(fleet, first, min(_COPIES, TIMES_REQUESTS - first))


def _windows_read(span: Span, spans_ms: Sequence[int]) -> set[int]:
    """Chunks whose windows a query over one of these ranges reads, rather than their hours."""
    found: set[int] = set()
    for span_ms in spans_ms:
        from_ms = max(span.from_ms, span.to_ms - span_ms)
        whole_ms = -(-from_ms // HOUR_MS) * HOUR_MS if span_ms > slowest_hours.WINDOWS_UP_TO_MS else span.to_ms
        found |= {at_ms - at_ms % _CHUNK_MS for at_ms in range(from_ms, whole_ms, MINUTE_MS)}
        found |= {
            at_ms - at_ms % _CHUNK_MS for at_ms in range(span.to_ms - span.to_ms % HOUR_MS, span.to_ms, MINUTE_MS)
        }
    return found


def _sent(sender: str, at_ms: str) -> dict[str, str]:
    """Identity of raw rows: a record a second of each sender, ``number`` its row."""
    return {
        "source": sender,
        "boot": "1",
        "seq": f"intDiv({at_ms}, 1000)",
        "row": "toUInt32(number)",
        "appended_ms": f"{at_ms} + 1000",
        "verdict": "'accepted'",
        "origin": "'simulated'",
    }


def _gpu_samples(fleet: Fleet, from_ms: int) -> Drawn:
    gpus = fleet.gpus
    labels, at_ms = gpu_of(fleet, f"(number % {gpus})"), f"{from_ms} + 1000 * intDiv(number, {gpus})"
    measured = ("util_gpu_pct", "util_memory_pct", "power_mw", "temperature_c", "clock_sm_mhz", "memory_used_bytes")
    drawn = {name: between(*LEVELS[name], name) for name in measured}
    moved = {"interval_ms": "1000", "energy_mj": between(180e3, 690e3, "energy"), "throttled_us": "number % 20000"}
    columns = {"at_ms": at_ms, **labels, **drawn, **moved, **_sent(labels["host"], at_ms)}
    return Drawn("gpu_samples", columns, gpus * _READ_MS // SECOND_MS)


def _engine_samples(fleet: Fleet, from_ms: int) -> Drawn:
    engines = fleet.engines
    labels, at_ms = engine_of(fleet, f"(number % {engines})"), f"{from_ms} + 1000 * intDiv(number, {engines})"
    drawn = {name: between(*LEVELS[name], name) for name in ("running", "waiting", "kv_used_ppm")}
    columns = {"at_ms": at_ms, **labels, **drawn, **_sent(labels["host"], at_ms)}
    return Drawn("engine_samples", columns, engines * _READ_MS // SECOND_MS)


def _gpu_processes(fleet: Fleet, from_ms: int) -> Drawn:
    """One on every GPU, as seen every ten seconds."""
    labels = gpu_of(fleet, "number")
    del labels["gpu_model"]
    seen = {
        "pid": "1000 + number",
        "memory_bytes": between(*LEVELS["memory_used_bytes"], "held"),
        "sm_util_pct": between(*LEVELS["util_gpu_pct"], "kernels"),
        "process_name": "'VLLM::Worker'",
        "workload": "'inference'",
    }
    return Drawn(
        "gpu_processes", {"at_ms": str(from_ms), **labels, **seen, **_sent(labels["host"], str(from_ms))}, fleet.gpus
    )


def _host_devices(fleet: Fleet, from_ms: int) -> Drawn:
    """An interface and a port of an adapter on every host, as read every ten seconds."""
    labels = host_of("intDiv(number, 2)")
    moved = {name: between(1e6, 9e9, name) for name in ("tx_bytes", "rx_bytes")}
    what = {"device": one_of(("eth0", "mlx5_0/1"), "number"), "device_kind": one_of(("interface", "rdma"), "number")}
    columns = {"at_ms": str(from_ms), "interval_ms": f"{_READ_MS}", **moved, "errors": "number % 3", **what}
    return Drawn("host_devices", columns | labels | _sent(labels["host"], str(from_ms)), 2 * fleet.hosts)


def _engine_events(fleet: Fleet, span: Span) -> Drawn:
    """Every engine is registered first, then changed or marked once an hour, up to the end of the history."""
    engines, hours = fleet.engines, max(1, (span.to_ms - span.from_ms) // HOUR_MS)
    labels, nth = engine_of(fleet, f"(number % {engines})"), f"intDiv(number, {engines})"
    at_ms = f"{span.to_ms} - 1000 - number % {engines} - {HOUR_MS} * ({hours - 1} - {nth})"
    change = {
        "kind": f"multiIf({nth} = 0, 'registered', {nth} % 6 = 5, 'marked', 'changed')",
        "model_version": f"concat('2026-', leftPad(toString(1 + {nth} % 12), 2, '0'))",
        "precision": "'fp8'",
        "engine_kind": "'vllm'",
        "engine_version": "'0.11.0'",
        "context_tokens_max": "131072",
        "tensor_parallel": str(GPUS_PER_HOST // ENGINES_PER_HOST),
        "message": f"if({nth} = 0, NULL, 'model_version')",
    }
    columns = {"at_ms": at_ms, **labels, **change, **_sent(labels["host"], at_ms)}
    return Drawn("engine_events", columns, engines * hours)


def _faults(fleet: Fleet, span: Span) -> Drawn:
    gpus = fleet.gpus
    labels = gpu_of(fleet, f"(cityHash64(number, {fleet.seed}) % {gpus})")
    at_ms = f"{span.from_ms} + {_FAULTS_MS} * number"
    kind = f"1 + number % {len(EVENT_KINDS)}"
    fault = {
        "kind": f"{words([kind for kind, _ in EVENT_KINDS])}[{kind}]",
        "severity": f"{words([severity for _, severity in EVENT_KINDS])}[{kind}]",
        "code": "if(number % 4 = 0, 31, NULL)",
        "message": "concat('Xid 31: GPU memory page fault, engine ', toString(number % 64))",
        "action": "'restart the application'",
    }
    columns = {"at_ms": at_ms, **labels, **fault, **_sent(labels["host"], at_ms)}
    return Drawn("gpu_events", columns, (span.to_ms - span.from_ms) // _FAULTS_MS)


def _request(salt: str) -> dict[str, str]:
    return {
        "request_id": f"concat('req-', lower(hex(sipHash128(number, {salt}))))",
        "trace_id": f"lower(hex(sipHash128({salt}, number)))",
        "status": "if(number % 50 = 0, 'timeout', 'ok')",
        "error_kind": "if(number % 50 = 0, 'timeout', NULL)",
    }


def _slow_us(salt: str) -> str:
    """Few are very slow: 0.3 s over a share that is evenly drawn."""
    return f"toInt64(300000 / (0.0002 + cityHash64(number, {salt}) % 100000 / 100000))"


def _slowest(fleet: Fleet, metric: str, chunk_ms: int) -> Drawn:
    """So many of every window and engine of a chunk as the windows job sends."""
    engines, each = fleet.engines, EXEMPLARS_MAX[metric]
    columns = {
        "window_ms": f"{chunk_ms} + {WINDOW_MS} * intDiv(number, {engines * each})",
        "value_us": _slow_us(str(chunk_ms)),
        "metric": f"'{metric}'",
        **engine_of(fleet, f"(intDiv(number, {each}) % {engines})"),
        "tenant": one_of(fleet.tenants, "cityHash64(number)"),
        **_request(str(chunk_ms)),
        "origin": "'simulated'",
        "log_id": "'bench'",
        "log_offset": str(chunk_ms),
        "log_row": "toUInt32(number)",
    }
    return Drawn("exemplars", columns, engines * each * (_CHUNK_MS // WINDOW_MS))


def _slowest_hours(fleet: Fleet, span: Span) -> Iterator[Drawn]:
    """Of every hour, engine and tenant the slowest, as the table makes it of windows that are not drawn here."""
    engines, tenants = fleet.engines, len(fleet.tenants)
    for hour_ms in range(-(-span.from_ms // HOUR_MS) * HOUR_MS, span.to_ms // HOUR_MS * HOUR_MS, HOUR_MS):
        for metric in slowest_hours.METRICS:
            request = _request(str(hour_ms))
            at_ms = f"toInt64({hour_ms} + {WINDOW_MS} * (number % {HOUR_MS // WINDOW_MS}))"
            slowest = (
                _slow_us(str(hour_ms)),
                at_ms,
                request.pop("request_id"),
                f"CAST({request.pop('error_kind')}, 'Nullable(String)')",
            )
            del request["trace_id"]
            columns = {
                "hour_ms": str(hour_ms),
                "metric": f"'{metric}'",
                **{
                    name: text
                    for name, text in engine_of(fleet, f"intDiv(number, {tenants})").items()
                    if name in slowest_hours.LABELS
                },
                "tenant": one_of(fleet.tenants, "number"),
                **request,
                "slowest": f"tuple({', '.join(slowest)})",
            }
            yield Drawn(slowest_hours.TABLE, columns, engines * tenants)


def _rejected(span: Span) -> Drawn:
    step_ms = max(1, (span.to_ms - span.from_ms) // REJECTED)
    columns = {
        "appended_ms": f"{span.to_ms} - 1 - {step_ms} * number",
        "partition": "number % 16",
        "offset": "number",
        "row": "if(number % 3 = 0, NULL, toUInt32(number % 200))",
        "events": "if(number % 3 = 0, 20 + number % 200, 1)",
        "bytes_total": "length(bytes)",
        "topic": one_of(BOOKED, "number"),
        "source": "concat('host-', leftPad(toString(number % 300), 4, '0'))",
        "reason": f"{words(list(REASONS))}[1 + number % {len(REASONS) - 1}]",
        "schema": "'gpu_samples/1'",
        "content_type": "'application/json'",
        "detail": "concat('power_mw in row ', toString(number % 200), ': -1, must be 0 or more')",
        "bytes": f"concat('{_NOTED.replace(chr(39), chr(34))}', repeat('x', 400 + number % 2000), '\"}}') AS bytes",
        "log_id": "'bench'",
        "log_offset": "number",
    }
    return Drawn("rejected", columns, REJECTED)


def _producers(fleet: Fleet, span: Span) -> Drawn:
    """What the producers of every host have written of each topic since they began."""
    host = f"intDiv(number, {len(BOOKED)})"
    columns = {
        "at_ms": f"{span.to_ms} - 1000 - number % 9000",
        "source": host_of(host)["host"],
        "host": host_of(host)["host"],
        "boot": "1",
        "topic": one_of(BOOKED, "number"),
        "records": "100000",
        "events": "4000000 + number",
        "acknowledged_events": "4000000 + number - number % 50",
        "shed_events": "if(number % 500 = 0, 40, 0)",
        "clock_skew_ms": f"if({host} % 50 = 0, -90000, toInt64({host} % 9) - 4)",
        "first_at_ms": str(span.from_ms),
    }
    return Drawn("producer_books", columns, fleet.hosts * len(BOOKED))


def _more_requests(fleet: Fleet, first: int, count: int) -> str:
    """Every drawn request again, so many seconds later, served by engines of the fleet. Drawn ones have low ``seq``."""
    engine = engine_of(fleet, f"(cityHash64(request_id, more) % {fleet.engines})")
    moved = {
        "at_ms": "at_ms + 1000 * more",
        "appended_ms": "appended_ms + 1000 * more",
        "seq": f"seq * {TIMES_REQUESTS} + more",
        "request_id": "concat(substring(request_id, 1, 20), lower(hex(cityHash64(request_id, more))))",
        "trace_id": "lower(hex(sipHash128(request_id, more)))",
        **engine,
        "placement_group": engine["engine_id"],
    }
    replaced = ",\n    ".join(f"{text} AS {name}" for name, text in moved.items())
    return f"""
INSERT INTO llm_requests
SELECT * REPLACE ({replaced}) EXCEPT (more)
FROM llm_requests CROSS JOIN (SELECT {first} + number AS more FROM numbers({count})) AS times
WHERE seq <= {TIMES_REQUESTS}"""


REQUESTS = Profile("history", hosts=25, requests_per_record=40, gpus_per_host=0, seconds=1)
"""A second of raw requests: a thousand."""


def draw(database: SinkDatabase, statements: Iterable[tuple[str, Drawn]], say: Callable[[str], None]) -> int:
    """Let the server draw rows; how many. ``say`` gets what they are, once."""
    rows, said = 0, ""
    for what, one in statements:
        if what != said:
            say(what)
            said = what
        database.command(one.sql())
        rows += one.rows
    return rows


def fill_requests(database: SinkDatabase, span: Span, seconds: int, seed: int) -> int:
    """Raw requests of so many seconds, spread evenly over the last hour; how many there are."""
    table = RAW[LLM_REQUESTS.topic]
    columns = tuple(one.name for one in table.fields)
    step_ms = (span.to_ms - max(span.from_ms, span.to_ms - HOUR_MS)) // seconds // 1_000 * 1_000
    rows = 0
    for number in range(seconds):
        at_ms = max(span.from_ms, span.to_ms - HOUR_MS) + number * step_ms
        emissions = next(Workload(REQUESTS, seed + number).steps(at_ms, 1))
        block = native.concat(LLM_REQUESTS.fields, [one.block for one in emissions])
        pieces = native.pieces(table.fields, Block(block.rows, {**block.columns, **_place(block.rows, number, at_ms)}))
        database.insert([Insert(table.name, columns, pieces, block.rows)])
        rows += block.rows
    return rows


def _place(rows: int, number: int, at_ms: int) -> dict[str, Column]:
    """Identity of raw rows, as if one sender had sent a record each second."""
    word = np.ones(rows, np.uint8)
    return {
        "source": Labels(word, [None, b"bench"]),
        "boot": Numbers(np.ones(rows, "<u8")),
        "seq": Numbers(np.full(rows, number + 1, "<u8")),
        "row": Numbers(np.arange(rows, dtype="<u4")),
        "appended_ms": Numbers(np.full(rows, at_ms + 1_000, "<i8")),
        "partition": Numbers(np.zeros(rows, "<u4")),
        "offset": Numbers(np.full(rows, number, "<u8")),
        "verdict": Labels(word, [None, b"accepted"]),
    }
