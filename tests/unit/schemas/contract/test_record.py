"""Records as the rest of the house sees them."""

from __future__ import annotations

from schemas.contract.record import Record


def test_a_record_says_where_it_stands() -> None:
    """As messages about it do."""
    assert Record("gpu.samples", 3, 41, 0, None, b"", ()).where == "gpu.samples[3] offset 41"
