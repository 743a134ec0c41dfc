"""What kept contexts pack is what everybody unpacks, from any thread, and aiokafka's producers use them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cramjam
import pytest
import zstandard
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from runtime import kept_zstd


@given(st.lists(st.binary(max_size=2_000), min_size=1, max_size=4))
def test_every_batch_is_whole_whatever_came_before(payloads: list[bytes]) -> None:
    """Nothing of one batch shows in the next; another implementation reads them, and they say their size."""
    for payload in payloads:
        packed = kept_zstd.pack(memoryview(payload))
        assert zstandard.frame_content_size(packed) == len(payload)
        assert bytes(cramjam.zstd.decompress(packed)) == payload
        assert kept_zstd.unpack(packed) == payload


def test_threads_do_not_share_a_context() -> None:
    payloads = [bytes([number]) * 50_000 + str(number).encode() for number in range(64)]
    with ThreadPoolExecutor(8) as threads:
        packed = list(threads.map(kept_zstd.pack, payloads))
        assert list(threads.map(kept_zstd.unpack, packed)) == payloads


def test_a_level_is_kept_for_itself() -> None:
    payload = b"".join(b"%d" % (number * number) for number in range(20_000))
    assert len(kept_zstd.pack(payload, 19)) < len(kept_zstd.pack(payload, 1))


@pytest.mark.parametrize("broken", [b"", b"no frame", kept_zstd.pack(b"whole")[:-1], kept_zstd.pack(b"a") + b"more"])
def test_what_is_not_one_whole_frame_is_refused(broken: bytes) -> None:
    with pytest.raises(zstandard.ZstdError):
        kept_zstd.unpack(broken)


def test_producers_pack_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch as aiokafka builds it, compiled or not, read by aiokafka as it is without us."""
    module, packed, pack = sys.modules[DefaultRecordBatchBuilder.__module__], [], kept_zstd.pack
    monkeypatch.setattr(module, "zstd_encode", vars(module)["zstd_encode"])  # put back in the end

    def noted(payload: Any, level: int) -> bytes:
        packed.append(level)
        return pack(payload, level)

    monkeypatch.setattr(kept_zstd, "pack", noted)
    kept_zstd.keep_contexts(1)
    builder = DefaultRecordBatchBuilder(2, 4, 0, -1, -1, -1, 1 << 20)
    builder.append(0, 1_700_000_000_000, b"key", b"value" * 1_000, [])

    batch = DefaultRecordBatch(bytearray(builder.build()))

    assert batch.compression_type == 4
    assert [(record.key, record.value) for record in batch] == [(b"key", b"value" * 1_000)]
    assert packed == [1]
