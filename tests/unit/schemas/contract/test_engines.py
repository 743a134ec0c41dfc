"""The record of an engine: what is written is read, and nothing else."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import orjson
import pytest

from schemas.contract.engines import ADDRESSES_MAX, RECORD_BYTES_MAX, Engine, decode, encode
from schemas.errors import RejectedError

ENGINE = Engine(
    "e-1",
    "h-1",
    "e-1+e-2",
    ("h-1:8000", "10.0.0.7:8000"),
    model="m",
    precision="bf16",
    gpu_uuids=("GPU-1", "GPU-2"),
    started_ms=5,
    reported_ms=7,
)


def test_a_record_is_read_as_it_was_written() -> None:
    """Every field, and the key that compaction keeps one record of."""
    assert decode(encode(ENGINE)) == ENGINE
    assert decode(encode(Engine("e", "h", "g"))) == Engine("e", "h", "g")
    assert ENGINE.key == b"h-1/e-1"


def test_fields_of_a_newer_version_are_left_out() -> None:
    """A reader of this version reads what it knows."""
    newer = orjson.loads(encode(ENGINE)) | {"schema": "engines/2", "rack": 7}

    assert decode(orjson.dumps(newer)) == ENGINE


@pytest.mark.parametrize(
    "changed",
    [
        {"engine_id": None},
        {"engine_id": 5},
        {"host": ["h"]},
        {"model": 1},
        {"addresses": "h:1"},
        {"addresses": [1]},
        {"addresses": ["a"] * (ADDRESSES_MAX + 1)},
        {"responding": 1},
        {"warm_ms": "5"},
        {"started_ms": "5"},
        {"started_ms": True},
        {"reported_ms": None},
    ],
)
def test_a_field_of_another_type_is_no_engine(changed: dict[str, Any]) -> None:
    """Whoever may write to the topic: no reader trusts what it finds there."""
    with pytest.raises(RejectedError):
        decode(orjson.dumps(asdict(ENGINE) | changed))


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"{}", b" " * (RECORD_BYTES_MAX + 1)])
def test_other_bytes_are_no_engine(data: bytes) -> None:
    """Truncated, empty, of another shape, too large."""
    with pytest.raises(RejectedError):
        decode(data)


def test_equal_engines_give_equal_bytes() -> None:
    """So that a state that did not change is not published again."""
    assert encode(ENGINE) == encode(replace(ENGINE))
