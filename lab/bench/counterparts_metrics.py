"""TTFT, gap per token and E2E from a client's own export, and their comparison with our rows: no I/O, no clock.

The formulas are those of ``definitions.md``, written again on purpose: nothing of ``producers/requests`` is used.
A client's clock begins when it wants to send, ours when the request has arrived; so each metric is kept from *start*
(its own definition) and from *sent* (the last byte handed to the socket). The export is aiperf's:
``profile_export_raw.jsonl`` has every message with its time, ``profile_export.jsonl`` the times of sending.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schemas.sketch import bin_of, merge, quantile

QUANTILES = (0.5, 0.95, 0.99)
METRICS = ("ttft_us", "itl_us", "e2e_us")
COUNTS = ("input_tokens", "output_tokens", "chunks")
ALLOWED_SHARE = 0.011
ALLOWED_US = 1_000
POINTS = ("sent", "start")

Percentiles = Mapping[str, Mapping[float, float | None]]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as the client saw it; times in whole microseconds since it started."""

    request_id: str
    sent_us: int
    first_us: int | None
    """First chunk with content; None when none came."""
    last_us: int
    """Last message, the end mark included."""
    gaps_us: tuple[int, ...]
    """Gap per token between chunks, once for each token of the later chunk."""
    chunks: int
    input_tokens: int | None
    output_tokens: int | None
    http_status: int


@dataclass(frozen=True, slots=True)
class Ours:
    """What our pipeline says: rows of ``llm.requests`` by request id, and percentiles of its sketches."""

    rows: tuple[Mapping[str, Any], ...]
    percentiles: Percentiles


def read_export(raw: Iterable[str], metrics: Iterable[str]) -> list[Seen]:
    """Requests of an export, from the lines of its two files, in order of the first. Raises KeyError for a request
    that only one of them has."""
    sent = dict(map(_sent_us, map(json.loads, metrics)))
    return [_seen(record, sent) for record in map(json.loads, raw)]


def _sent_us(record: dict[str, Any]) -> tuple[str, int]:
    metadata = record["metadata"]
    sent_ns = record["trace_data"]["request_send_end_ns"] - metadata["request_start_ns"]
    return metadata["x_request_id"], max(sent_ns, 0) // 1_000


def _seen(record: dict[str, Any], sent_us: Mapping[str, int]) -> Seen:
    request_id, start_ns = record["metadata"]["x_request_id"], record["start_perf_ns"]
    messages = [
        (each["perf_ns"] - start_ns, packet["value"])
        for each in record["responses"]
        for packet in each["packets"]
        if packet["name"] == "data"
    ]
    bodies = [(at_ns, json.loads(text)) for at_ns, text in messages if text != "[DONE]"]
    chunks = [(at_ns, body) for at_ns, body in bodies if _carries(body)]
    chunk_ns = [at_ns for at_ns, _ in chunks]
    usage: dict[str, Any] = next((body["usage"] for _, body in reversed(bodies) if body.get("usage")), {})
    output_tokens = usage.get("completion_tokens")
    return Seen(
        request_id=request_id,
        sent_us=sent_us[request_id],
        first_us=chunk_ns[0] // 1_000 if chunk_ns else None,
        last_us=max((at_ns for at_ns, _ in messages), default=0) // 1_000,
        gaps_us=gaps_counted(chunk_ns, _so_far(chunks)) or gaps_per_token(chunk_ns, output_tokens),
        chunks=len(chunk_ns),
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=output_tokens,
        http_status=record["status"],
    )


def _carries(body: Mapping[str, Any]) -> bool:
    """Whether a message is a chunk: text, a refusal, reasoning or a tool call of a choice."""
    names = ("content", "refusal", "reasoning_content", "reasoning", "tool_calls")
    return any(choice.get("delta", {}).get(name) for choice in body.get("choices", ()) for name in names)


def _so_far(chunks: Sequence[tuple[int, Mapping[str, Any]]]) -> list[int]:
    """Tokens until each chunk, where every chunk of the stream counts them; else nothing."""
    counts = [(body.get("usage") or {}).get("completion_tokens") for _, body in chunks]
    return [count for count in counts if count is not None] if None not in counts else []


def gaps_counted(chunk_ns: Sequence[int], so_far: Sequence[int]) -> tuple[int, ...]:
    """Gaps of one choice's chunks in microseconds per token, by the engine's count in each of them."""
    out: list[int] = []
    for place in range(1, len(so_far)):
        tokens = so_far[place] - so_far[place - 1]
        out += [(chunk_ns[place] - chunk_ns[place - 1]) // (1_000 * tokens)] * tokens
    return tuple(out)


def gaps_per_token(chunk_ns: Sequence[int], output_tokens: int | None) -> tuple[int, ...]:
    """Gaps of one choice's chunks in microseconds per token. A total above the chunks by more than the
    end-of-sequence token is spread evenly over the chunks; else a chunk is one token."""
    count = len(chunk_ns)
    total = output_tokens if output_tokens is not None and output_tokens > count + 1 else count
    out: list[int] = []
    for place in range(1, count):
        tokens = (place + 1) * total // count - place * total // count
        out += [(chunk_ns[place] - chunk_ns[place - 1]) // (1_000 * tokens)] * tokens
    return tuple(out)


def metrics_of_client(seen: Sequence[Seen], point: str) -> dict[str, list[int]]:
    """All values of each metric, timed from ``sent`` or ``start``."""
    begins = {each.request_id: each.sent_us if point == "sent" else 0 for each in seen}
    return {
        "ttft_us": [max(s.first_us - begins[s.request_id], 0) for s in seen if s.first_us is not None],
        "itl_us": [gap for s in seen for gap in s.gaps_us],
        "e2e_us": [max(s.last_us - begins[s.request_id], 0) for s in seen],
    }


def quantiles_of(values: Sequence[int]) -> dict[float, float | None]:
    """As numpy has them by default, and so do vLLM's benchmark and aiperf; None without values."""
    if not values:
        return dict.fromkeys(QUANTILES)
    return {q: float(np.quantile(np.asarray(values), q)) for q in QUANTILES}


def percentiles_of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[float, float | None]]:
    """Percentiles of the sketches that the windows of these rows would hold."""
    sketches = {name: _sketch([row[name] for row in rows if row[name] is not None]) for name in ("ttft_us", "e2e_us")}
    sketches["itl_us"] = merge(*(row["itl_bins"] for row in rows))
    return {name: {q: quantile(sketches[name], q) for q in QUANTILES} for name in METRICS}


def _sketch(values: Sequence[int]) -> dict[int, int]:
    bins, counts = np.unique(bin_of(np.asarray(values, dtype=np.int64)), return_counts=True)
    return dict(zip(bins.tolist(), counts.tolist(), strict=True))


def compare(seen: Sequence[Seen], ours: Ours) -> dict[str, Any]:
    """Counts, percentiles and requests one by one; ``agrees`` is the verdict on counts and on percentiles from sent."""
    by_id = {row["request_id"]: row for row in ours.rows}
    pairs = [(each, by_id[each.request_id]) for each in seen if each.request_id in by_id]
    counts = counted(seen, ours.rows, len(pairs))
    clients = {point: metrics_of_client(seen, point) for point in POINTS}
    percentiles = {point: judged(clients[point], ours.percentiles) for point in POINTS}
    agrees = all(each["agrees"] for each in counts.values()) and all(each["agrees"] for each in percentiles["sent"])
    return {
        "agrees": agrees,
        "counts": counts,
        "percentiles": percentiles,
        "ours_without_sketch_us": exactly(ours.rows),
        "request_by_request": {point: differences(pairs, point) for point in POINTS},
        "client_sending_us": quantiles_of([each.sent_us for each in seen]),
    }


def counted(seen: Sequence[Seen], rows: Sequence[Mapping[str, Any]], matched: int) -> dict[str, dict[str, Any]]:
    """What must be the same exactly: requests, tokens, chunks, gaps, and how many requests differ in a count."""
    client = {
        "requests": len(seen),
        "requests_matched": len(seen),
        "requests_ok": sum(each.http_status == 200 for each in seen),
        **{name: sum(getattr(each, name) or 0 for each in seen) for name in COUNTS},
        "gaps": sum(len(each.gaps_us) for each in seen),
    }
    ours = {
        "requests": len(rows),
        "requests_matched": matched,
        "requests_ok": sum(row["status"] == "ok" for row in rows),
        **{name: sum(row[name] or 0 for row in rows) for name in COUNTS},
        "gaps": sum(sum(row["itl_bins"].values()) for row in rows),
    }
    return {name: {"client": client[name], "ours": ours[name], "agrees": client[name] == ours[name]} for name in client}


def exactly(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[float, float | None]]:
    """Order statistics of the rows' own values, no sketch between: what of a difference is the clocks' alone."""
    known = {name: [row[name] for row in rows if row[name] is not None] for name in ("ttft_us", "e2e_us")}
    return {name: quantiles_of(values) for name, values in known.items()}


def judged(client: Mapping[str, Sequence[int]], ours: Percentiles) -> list[dict[str, Any]]:
    """One entry for each metric and percentile: both values, and whether they differ by no more than is allowed."""
    return [
        _verdict(name, q, value, ours[name][q]) for name in METRICS for q, value in quantiles_of(client[name]).items()
    ]


def _verdict(name: str, q: float, client_us: float | None, ours_us: float | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"metric": name, "percentile": q * 100, "client_us": client_us, "ours_us": ours_us}
    if client_us is None or ours_us is None:
        return entry | {"difference_us": None, "allowed_us": None, "agrees": client_us is ours_us}
    entry["ours_us"] = round(ours_us)
    difference_us, allowed_us = ours_us - client_us, client_us * ALLOWED_SHARE + ALLOWED_US
    agrees = abs(difference_us) <= allowed_us
    return entry | {"difference_us": round(difference_us), "allowed_us": round(allowed_us), "agrees": agrees}


def differences(pairs: Sequence[tuple[Seen, Mapping[str, Any]]], point: str) -> dict[str, Any]:
    """Order statistics of client minus ours, request by request, and how many requests differ in a count."""

    def since(each: Seen, at_us: int) -> int:
        return at_us - (each.sent_us if point == "sent" else 0)

    ttft = [since(s, s.first_us) - row["ttft_us"] for s, row in pairs if s.first_us is not None and row["ttft_us"]]
    e2e = [since(s, s.last_us) - row["e2e_us"] for s, row in pairs if row["e2e_us"] is not None]
    return {
        "ttft_us": quantiles_of(ttft),
        "e2e_us": quantiles_of(e2e),
        "requests_with_other_counts": sum(any(getattr(s, name) != row[name] for name in COUNTS) for s, row in pairs),
    }
