"""Which errors of ClickHouse are of a damaged part; the texts are of ClickHouse 26.9, of parts damaged by hand."""

from __future__ import annotations

import pytest

from runtime.clickhouse_parts import broken_part

AT = (
    "(while reading column v): (while reading from part /data/store/db0/db0a0d18-d317/all_1_1_0/"
    " in table fleetpulse.dmg (db0a0d18-d317-4202) located on disk default of type local, from mark 0 with"
    " max_rows_to_read = 65536): While reading part all_1_1_0: While executing MergeTreeSelect(pool: ReadPool)."
)
EMPTY = f"Code: 246. DB::Exception: Empty marks file '/data/store/db0/all_1_1_0/data.cmrk4': 0, must be: 1768: {AT}"
CUT = f"Code: 33. DB::Exception: Cannot read all data. Bytes read: 152. Bytes expected: 305: {AT}"
CHANGED = f"Code: 40. DB::Exception: Checksum doesn't match: corrupted data. Reference: c70d. Actual: 00a1.: {AT}"
GONE = f"Code: 107. DB::Exception: Cannot open file /data/v.bin: , errno: 2, strerror: No such file or directory: {AT}"


def test_a_part_is_named_in_a_folder_with_a_space() -> None:
    """As a laptop may have it."""
    assert broken_part(246, EMPTY.replace("/data/", "/my data/click house/")) == ("fleetpulse.dmg", "all_1_1_0")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(246, EMPTY, id="a file of marks is empty"),
        pytest.param(33, CUT, id="a file is cut"),
        pytest.param(40, CHANGED, id="bytes have changed"),
        pytest.param(107, GONE, id="a file is gone"),
    ],
)
def test_an_error_while_reading_a_part_names_it(code: int, text: str) -> None:
    """With its table, as a statement takes both."""
    assert broken_part(code, text) == ("fleetpulse.dmg", "all_1_1_0")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(33, "Code: 33. DB::Exception: Cannot read all data. Bytes read: 4.", id="an insert that was cut"),
        pytest.param(241, f"Code: 241. DB::Exception: Memory limit exceeded: {AT}", id="memory while reading a part"),
        pytest.param(None, EMPTY, id="an error without a code"),
    ],
)
def test_another_error_is_of_no_part(code: int | None, text: str) -> None:
    """Memory comes back, and what was sent wrong is none of the server's files."""
    assert broken_part(code, text) is None
