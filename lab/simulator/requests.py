"""Finished requests of the kernel as the columns of ``llm.requests``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.simulator.engine_state import (
    ABORTED,
    CLIENT,
    ENGINE_LOST,
    LENGTH,
    NO_ENGINE,
    OOM,
    OVERLOAD,
    SERVER,
    STOP,
    TIMEOUT,
    TOOL_CALLS,
    Output,
)
from lab.simulator.wide import EntityLabel, Of, Wide, WideColumn, completed, constant_label, hex_texts, number, optional
from schemas.codec.block import Bins, Labels
from schemas.events.event_types import ERROR_KINDS, FINISH_REASONS, LLM_REQUESTS, STARTS, STATUSES


@dataclass(frozen=True, slots=True)
class Ending:
    """How a fate reads in the event."""

    status: str
    error_kind: str | None
    finish_reason: str | None
    http_status: int


ENDINGS = {
    STOP: Ending("ok", None, "stop", 200),
    LENGTH: Ending("ok", None, "length", 200),
    TOOL_CALLS: Ending("ok", None, "tool_calls", 200),
    ABORTED: Ending("aborted", None, "abort", 499),
    SERVER: Ending("error", "server", "error", 500),
    CLIENT: Ending("error", "client", None, 400),
    OOM: Ending("error", "oom", "error", 500),
    ENGINE_LOST: Ending("error", "engine_lost", "error", 502),
    TIMEOUT: Ending("timeout", "timeout", None, 504),
    OVERLOAD: Ending("rejected", "overload", None, 429),
    NO_ENGINE: Ending("rejected", "overload", None, 503),
}


def _words(values: tuple[str, ...]) -> list[bytes | None]:
    return [None, *(value.encode() for value in values)]


def _codes(name: str, values: tuple[str, ...]) -> npt.NDArray[np.uint8]:
    """Code of each fate's value in ``[None, *values]``."""
    found = (getattr(ENDINGS[fate], name) for fate in range(len(ENDINGS)))
    return np.array([0 if value is None else 1 + values.index(value) for value in found], np.uint8)


_STATUS, _ERROR = _codes("status", STATUSES), _codes("error_kind", ERROR_KINDS)
_FINISH = _codes("finish_reason", FINISH_REASONS)
_HTTP = np.array([ENDINGS[fate].http_status for fate in range(len(ENDINGS))], np.uint32)


@dataclass(frozen=True, slots=True)
class RequestLabels:
    """Labels by entity: the engines, then one stand-in per model for requests that no engine took."""

    by_entity: dict[str, EntityLabel]
    host_of: npt.NDArray[np.int64]
    model_of: npt.NDArray[np.int64]
    engines: int
    tenants: list[bytes | None]
    classes: list[bytes | None]
    class_of: npt.NDArray[np.uint8]


def request_wide(output: Output, labels: RequestLabels, hosts: int, tag: bytes, random: np.random.Generator) -> Wide:
    """The wide batch of what the kernel has written, sorted by host."""
    rows = output.rows[: output.cursor[0]]
    keys, counts = output.keys[: output.cursor[1]], output.counts[: output.cursor[1]]
    ends = rows["gap_end"]
    engine = rows["engine"].astype(np.int64)
    entity = np.where(rows["fate"] == NO_ENGINE, labels.engines + labels.model_of[engine], engine)
    host = labels.host_of[entity]
    if len(host) > 1 and (np.diff(host) < 0).any():
        order = np.argsort(host, kind="stable")
        rows, entity, host = rows[order], entity[order], host[order]
        ends, keys, counts = _reorder(ends, keys, counts, order)
    columns = _columns(rows, labels, tag, random)
    columns["itl_bins"] = Bins(ends, keys, counts)
    for name, label in labels.by_entity.items():
        columns[name] = Of(label)
    ordered = completed(LLM_REQUESTS, columns, len(entity))
    return Wide(LLM_REQUESTS.topic, entity, np.cumsum(np.bincount(host, minlength=hosts)), ordered)


def _columns(
    rows: npt.NDArray[np.void], labels: RequestLabels, tag: bytes, random: np.random.Generator
) -> dict[str, WideColumn]:
    columns = _measures(rows)
    fate = rows["fate"].astype(np.int64)
    columns["http_status"] = number(_HTTP[fate], "<u4")
    columns["tenant"] = Labels((rows["tenant"] + 1).astype(np.uint16), labels.tenants)
    columns["slo_class"] = Labels(labels.class_of[rows["tenant"]], labels.classes)
    columns["status"] = Labels(_STATUS[fate], _words(STATUSES))
    columns["error_kind"] = Labels(_ERROR[fate], _words(ERROR_KINDS))
    columns["finish_reason"] = Labels(_FINISH[fate], _words(FINISH_REASONS))
    columns["start"] = Labels(np.where(rows["cold"] > 0, 1, 2).astype(np.uint8), _words(STARTS))
    columns["origin"] = constant_label("simulated", len(rows))
    numbers = rows["number"].astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]
    columns["request_id"] = hex_texts(tag, numbers)
    traces = np.frombuffer(random.bytes(16 * len(rows)), np.uint8).reshape(-1, 16)
    columns["trace_id"] = hex_texts(b"", traces)
    return columns


def _measures(rows: npt.NDArray[np.void]) -> dict[str, WideColumn]:
    """Durations are null where the moment that ends them did not come."""
    first, scheduled, arrived = rows["first_us"], rows["scheduled_us"], rows["arrived_us"]
    made = rows["made_tokens"]
    began, spoke, went_on = scheduled >= 0, first >= 0, made >= 2
    decode = rows["last_us"] - first
    values: dict[str, tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]] = {
        "ttft_us": (first - arrived, spoke),
        "tpot_us": (decode // np.maximum(made - 1, 1), went_on),
        "queue_us": (scheduled - arrived, began),
        "ttfo_us": (first - arrived, spoke),
        "prefill_us": (first - scheduled, spoke),
        "decode_us": (decode, spoke),
        "cached_tokens": (rows["cached_tokens"], began),
    }
    columns: dict[str, WideColumn] = {name: optional(*pair, "<u4") for name, pair in values.items()}
    columns["at_ms"] = number(rows["end_us"] // 1_000, "<i8")
    columns["e2e_us"] = number(rows["end_us"] - arrived, "<u4")
    columns["input_tokens"] = number(rows["input_tokens"], "<u4")
    columns["output_tokens"] = number(made, "<u4")
    columns["reasoning_tokens"] = number(np.zeros(len(rows)), "<u4")
    return columns


def _reorder(
    ends: npt.NDArray[np.int64],
    keys: npt.NDArray[np.int16],
    counts: npt.NDArray[np.uint64],
    order: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16], npt.NDArray[np.uint64]]:
    """Ragged rows in another order."""
    begins = np.concatenate([[0], ends[:-1]])[order]
    lengths = ends[order] - begins
    new_ends = np.cumsum(lengths)
    take = np.arange(new_ends[-1]) + np.repeat(begins - (new_ends - lengths), lengths)
    return new_ends, keys[take], counts[take]
