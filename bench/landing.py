"""What landing raw requests costs, client and server: our sink against the same rows as JSONEachRow.

``python bench/landing.py [--rows 1000000] [--per-record 40] [--data-dir DIR] [--json]``. CPU-seconds of this process
and of the ClickHouse server; merges that run behind the last insert until all is quiet are shown apart. Both sides
insert the same rows into the same table, one insert for what a fleet of 1,250 hosts sends in a second; ours also
judges every event and adds its identity, JSONEachRow leaves those columns empty. The counts of both tables are
compared before a ratio is printed. Needs no broker: records are handed over as a fetch would bring them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import clickhouse_connect
import orjson
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.admission import NOW_MS, batches, records_of
from fleetpulse import stack
from runtime.config import load
from runtime.local_stack import read_state
from schemas.ddl import migrations
from schemas.events import LLM_REQUESTS
from schemas.headers import NATIVE, Identity, encode_headers
from schemas.limits import DEFAULT_LIMITS
from schemas.record import Record
from sinks.database import INSERT_SETTINGS, SinkDatabase
from sinks.landing import land_raw

HOSTS = 1_250
TABLE, DATABASE = "llm_requests", "fleetpulse_bench_landing"
QUIET_S = 3.0


def fetches(records: list[Record], rounds: int, per_record: int, now_ms: int) -> Iterator[list[Record]]:
    """The same batches again and again, each time under new identities and offsets."""
    for turn in range(rounds):
        yield [
            record._replace(
                timestamp_ms=now_ms,
                offset=turn * len(records) + number,
                headers=encode_headers(
                    LLM_REQUESTS.schema, NATIVE, Identity(f"{number:032x}", 1, turn, (1, turn)), per_record
                ),
            )
            for number, record in enumerate(records)
        ]


def measured(client: Any, server: psutil.Process, work: Callable[[], None]) -> dict[str, float]:
    """CPU-seconds of client and server for the work and the merges it causes."""
    client.command(f"TRUNCATE TABLE {TABLE}")
    _quiet(client)
    before, own, begun = server.cpu_times(), time.process_time(), time.monotonic()
    work()
    client_s, wall_s, landed = time.process_time() - own, time.monotonic() - begun, server.cpu_times()
    _quiet(client)
    merged = server.cpu_times()
    insert_s = landed.user + landed.system - before.user - before.system
    merge_s = merged.user + merged.system - landed.user - landed.system
    return {
        "client_cpu_s": round(client_s, 2),
        "server_cpu_s": round(insert_s, 2),
        "merges_after_cpu_s": round(merge_s, 2),
        "landing_cpu_s": round(client_s + insert_s, 2),
        "cpu_s": round(client_s + insert_s + merge_s, 2),
        "wall_s": round(wall_s, 2),
    }


def _quiet(client: Any) -> None:
    """Wait until no merge has run for a while."""
    since = time.monotonic()
    while time.monotonic() - since < QUIET_S:
        if client.command("SELECT count() FROM system.merges"):
            since = time.monotonic()
        time.sleep(0.25)


def ours(database: SinkDatabase, work: list[list[Record]]) -> None:
    for records in work:
        database.insert(land_raw("llm.requests", records, {}, records[0].timestamp_ms, DEFAULT_LIMITS).inserts)


def peer(client: Any, work: list[bytes]) -> None:
    settings = {name: INSERT_SETTINGS[name] for name in ("async_insert", "wait_end_of_query")}
    for body in work:
        client.raw_insert(TABLE, insert_block=body, fmt="JSONEachRow", settings=settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--per-record", type=int, default=40)
    parser.add_argument("--data-dir", type=Path, help="a local stack; started if it does not run")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    folder = load({"data_dir": arguments.data_dir}).data_dir
    stack.up(folder)
    state = read_state(folder)
    assert state is not None
    server = psutil.Process(state.processes[stack.CLICKHOUSE].pid)
    config = load({"data_dir": folder}).clickhouse
    with clickhouse_connect.get_client(**config.client_settings()) as client:
        client.command(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    config = config.model_copy(update={"database": DATABASE})
    result = run(config, server, arguments.rows, arguments.per_record)
    print(json.dumps(result) if arguments.json else "\n".join(f"{name}: {value}" for name, value in result.items()))


def run(config: Any, server: psutil.Process, rows: int, per_record: int) -> dict[str, Any]:
    """Both sides on the same rows, in a database of their own."""
    now_ms = int(time.time() * 1_000)
    events = batches(LLM_REQUESTS, HOSTS, per_record, seed=1)
    for batch in events:
        for row in batch:
            row["at_ms"] += now_ms - NOW_MS
    rounds = -(-rows // (HOSTS * per_record))
    work = list(fetches(records_of(LLM_REQUESTS, events, NATIVE), rounds, per_record, now_ms))
    lines = _lines(events, rounds, now_ms)
    with clickhouse_connect.get_client(**config.client_settings(), autogenerate_session_id=False) as client:
        try:
            for migration in migrations():
                if migration.name in ("functions", "raw", "partials", "packing", "merges"):
                    for statement in migration.statements:
                        client.command(statement)
            count = f"SELECT count(), sum(e2e_us), uniqExact(request_id) FROM {TABLE}"
            database = SinkDatabase(config)
            ours(database, work[:1])  # compiled, connected, warm
            native = measured(client, server, lambda: ours(database, work))
            native_rows = client.query(count).result_rows
            peer(client, lines[:1])
            peer_found = measured(client, server, lambda: peer(client, lines))
            assert native_rows[0][0] == rounds * HOSTS * per_record, "not all rows landed"
            assert native_rows == client.query(count).result_rows, "both must have landed the same"
            database.close()
        finally:
            client.command(f"DROP DATABASE {config.database}")
    return {
        "rows": native_rows[0][0],
        "per_record": per_record,
        "ours": native,
        "json_each_row": peer_found,
        "ratio_of_landing": round(native["landing_cpu_s"] / peer_found["landing_cpu_s"], 3),
        "ratio_with_later_merges": round(native["cpu_s"] / peer_found["cpu_s"], 3),
    }


def _lines(events: list[list[dict[str, Any]]], rounds: int, now_ms: int) -> list[bytes]:
    """One body of JSON lines per insert. ``seq`` and ``source`` stand in it, so that no row replaces another."""
    return [
        b"\n".join(
            orjson.dumps(
                {**row, "source": f"{host:032x}", "seq": turn, "row": number, "appended_ms": now_ms},
                option=orjson.OPT_NON_STR_KEYS,
            )
            for host, batch in enumerate(events)
            for number, row in enumerate(batch)
        )
        for turn in range(rounds)
    ]


if __name__ == "__main__":
    main()
