"""What the proxy adds: streams of a mock engine, with and without it, in turns of one run.

Engine, client and proxy are processes of their own; the proxy has a core to itself where there are two. Every stream
goes straight to the engine and through the proxy, in rounds that take turns; *added* is the difference within a pair:

- ``ttft``: of the time to the first token, by the client's clock alone; this is held to the bound. Of it ``ttft_first``
  are requests that are their connection's first, ``ttft_later`` those sent as soon as the answer before had ended;
- ``way``: the same without the time that the engine says it took itself;
- ``chunk``: of the way of the n-th token from its writing to its reading.

Two yardsticks go with it: *null*, every stream straight to the engine once more, is what the measurement cannot
resolve; *relay* is what any process in between adds on this machine. ``others_core_share``: cores taken by processes
that are none of the bench's; where it is more than next to nothing, the tails are theirs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil

from lab.bench import cpu
from schemas.errors import UnavailableError

STREAMS = 64
TIMES = 2
"""Streams that every connection asks for, one after the other: half of the requests find their way made."""
TOKENS = 200
GAP_MS = 10.0
FIRST_MS = 50.0
ROUND_S = 20
"""What a round on all four ways takes."""
TARGETS = {"added_ttft_p99_us": 1_000, "added_chunk_p99_us": 1_000, "chunks_per_cpu_s": 20_000}
"""At most, at most, at least (2,000 chunks a second for each tenth of a core)."""
_QUANTILES = (50, 90, 99)

Seen = dict[str, Any]
"""One stream, as ``proxy_load.Seen``."""


def apart_ms(streams: int, gap_ms: float) -> float:
    """How far apart streams begin, so that their chunks never come together: a gap and a share of one."""
    return gap_ms + gap_ms / streams


def quantiles_us(values_ns: Sequence[int]) -> dict[str, float]:
    """p50, p90, p99 and the greatest, in microseconds; order statistics, not interpolated."""
    values = np.sort(np.asarray(values_ns, dtype=np.float64)) / 1_000
    found = {f"p{q}_us": float(np.percentile(values, q, method="lower")) for q in _QUANTILES}
    return {name: round(value, 1) for name, value in (found | {"max_us": float(values[-1])}).items()}


def pairs_of(direct: Sequence[Seen], other: Sequence[Seen]) -> dict[str, list[int]]:
    """Differences of the n-th stream, and of its n-th token, on two ways. Whole streams only."""
    both = [pair for pair in zip(direct, other, strict=True) if pair[0]["whole"] and pair[1]["whole"]]
    ttft = [(via["first"], via["ttft_ns"] - straight["ttft_ns"]) for straight, via in both]
    return {
        "ttft": [added for _, added in ttft],
        "ttft_first": [added for first, added in ttft if first],
        "ttft_later": [added for first, added in ttft if not first],
        "way": [via["way_ns"] - straight["way_ns"] for straight, via in both],
        "chunk": [
            added for straight, via in both for added in np.subtract(via["transit_ns"], straight["transit_ns"]).tolist()
        ],
    }


@dataclass(slots=True)
class Way:
    """What was seen of all rounds on one way; ``cpu_s`` of the process in between, ``seconds`` of its rounds."""

    seen: list[Seen] = field(default_factory=list)
    cpu_s: float = 0.0
    seconds: float = 0.0

    @property
    def chunks(self) -> int:
        """Chunks that came."""
        return sum(len(stream["transit_ns"]) for stream in self.seen)

    @property
    def chunks_per_cpu_s(self) -> int | None:
        """Chunks passed on per second of processor time."""
        return round(self.chunks / self.cpu_s) if self.cpu_s else None

    def added(self, direct: Way) -> dict[str, dict[str, float]]:
        """Quantiles of what this way adds to each metric; none for one that nothing came of."""
        return {name: quantiles_us(found) for name, found in pairs_of(direct.seen, self.seen).items() if found}

    def taken(self) -> dict[str, dict[str, float]]:
        """Quantiles of the values themselves, without pairs."""
        whole = [stream for stream in self.seen if stream["whole"]]
        return {
            "way": quantiles_us([stream["way_ns"] for stream in whole]),
            "chunk": quantiles_us([at for stream in whole for at in stream["transit_ns"]]),
        }


def report(direct: Way, proxied: Way, relayed: Way, again: Way) -> dict[str, Any]:
    """The numbers of all rounds."""
    added, relay, null = proxied.added(direct), relayed.added(direct), again.added(direct)
    everything = direct.seen + proxied.seen + relayed.seen + again.seen
    return {
        "added_ttft_p99_us": added["ttft"]["p99_us"],
        "added_way_p99_us": added["way"]["p99_us"],
        "added_chunk_p99_us": added["chunk"]["p99_us"],
        "relay_ttft_p99_us": relay["ttft"]["p99_us"],
        "relay_chunk_p99_us": relay["chunk"]["p99_us"],
        "null_ttft_p99_us": null["ttft"]["p99_us"],
        "null_chunk_p99_us": null["chunk"]["p99_us"],
        "chunks_per_cpu_s": proxied.chunks_per_cpu_s,
        "relay_chunks_per_cpu_s": relayed.chunks_per_cpu_s,
        "added": added,
        "relay_added": relay,
        "null_added": null,
        "direct": direct.taken(),
        "proxied": proxied.taken(),
        "relayed": relayed.taken(),
        "streams": len(proxied.seen),
        "streams_identical": all(stream["whole"] for stream in everything),
        "chunks": proxied.chunks,
        "proxy_cpu_s": round(proxied.cpu_s, 3),
        "proxy_core_share": round(proxied.cpu_s / proxied.seconds, 4) if proxied.seconds else None,
        "targets": TARGETS,
    }


def run(rounds: int) -> dict[str, Any]:
    """Measure, after one round of each to warm up; some 20 s for each round."""
    pace = {"tokens": TOKENS, "first_ms": FIRST_MS, "gap_ms": GAP_MS}
    with ExitStack() as running:
        engine, engine_port = _started(running, "proxy_engine", pace)
        upstream = {"upstream": f"http://127.0.0.1:{engine_port}"}
        served, proxy_port = _started(running, "proxy_between", {"which": "proxy"} | upstream)
        relay, relay_port = _started(running, "proxy_between", {"which": "relay"} | upstream)
        load = {"ports": [engine_port, proxy_port, relay_port, engine_port], "streams": STREAMS, "times": TIMES}
        client = _process(running, "proxy_load", load | {"apart_ms": apart_ms(STREAMS, GAP_MS)})
        _give_cores((served.pid, relay.pid), (engine.pid, client.pid))
        between = (None, psutil.Process(served.pid), psutil.Process(relay.pid), None)
        ours = [psutil.Process(process.pid) for process in (engine, client, served, relay)]
        before_s, began_s = [_busy_s(), *map(_cpu_s, ours)], time.monotonic()
        result = report(*_rounds(client, between, rounds))
        seconds = time.monotonic() - began_s
        spent_s = np.subtract([_busy_s(), *map(_cpu_s, ours)], before_s)
        result["engine_core_share"], result["client_core_share"] = (spent_s[1:3] / seconds).round(4).tolist()
        result["others_core_share"] = round(float(spent_s[0] - spent_s[1:].sum()) / seconds, 4)
        result["proxy_memory_mib"] = round(psutil.Process(served.pid).memory_info().rss / 2**20, 1)
        served.terminate()
        assert served.stdout is not None
        result["events"] = json.loads(served.stdout.readline())["events"]
        result["events_expected"] = STREAMS * TIMES * (rounds + 1)
        result["machine"] = {"cores": os.cpu_count(), "load_1m": round(os.getloadavg()[0], 2)}
        return result


def measure(seconds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """As many rounds as fit, and which bounds they keep."""
    rounds = max(1, seconds // ROUND_S)
    say(f"{rounds} rounds without the proxy, with it, through a bare relay, and without it again")
    result = run(rounds=rounds)
    within = {name: result[name] <= TARGETS[name] for name in ("added_ttft_p99_us", "added_chunk_p99_us")}
    within["chunks_per_cpu_s"] = (result["chunks_per_cpu_s"] or 0) >= TARGETS["chunks_per_cpu_s"]
    within["streams_identical"] = result["streams_identical"]
    within["events"] = result["events"] == result["events_expected"]
    return result | {"within": within}


def _rounds(client: subprocess.Popen[str], between: Sequence[psutil.Process | None], rounds: int) -> list[Way]:
    """Every way once to warm up, then so many rounds in an order that turns; ``between`` are their processes."""
    ways = [Way() for _ in between]
    for which in range(len(ways)):
        _round(client, which)
    for number in range(rounds):
        for turn in range(len(ways)):
            which = (number + turn) % len(ways)
            way, process = ways[which], between[which]
            before_s, began_s = _cpu_s(process), time.monotonic()
            way.seen += _round(client, which)
            way.cpu_s += _cpu_s(process) - before_s
            way.seconds += time.monotonic() - began_s
    return ways


def _round(client: subprocess.Popen[str], which: int) -> list[Seen]:
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(f"{which}\n")
    client.stdin.flush()
    line = client.stdout.readline()
    if not line:
        raise UnavailableError("the load client of the bench ended early; its error stands above")
    seen: list[Seen] = json.loads(line)
    return seen


def _cpu_s(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return float(times.user + times.system)


def _busy_s() -> float:
    """What all processes of the machine have taken, interrupts included, on every core."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def _started(running: ExitStack, module: str, options: dict[str, Any]) -> tuple[subprocess.Popen[str], int]:
    process = _process(running, module, options)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise UnavailableError(f"{module} of the bench did not start; its error stands above")
    return process, int(line)


def _process(running: ExitStack, module: str, options: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"lab.bench.{module}", json.dumps(options)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    running.callback(_ended, process)
    return process


def _ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _give_cores(between: Sequence[int], others: Sequence[int]) -> None:
    """Proxy and relay, which take turns, on the last core, the rest on all others, where there is more than one."""
    cores = cpu.cores()
    if len(cores) < 2:
        return
    for pid in between:
        cpu.pin(pid, {cores[-1]})
    for pid in others:
        cpu.pin(pid, set(cores[:-1]))
