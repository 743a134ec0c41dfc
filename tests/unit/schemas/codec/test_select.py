"""Rows by a mask, for columns of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec.build import block_from_rows, rows_of
from schemas.codec.select import select
from schemas.events.event_types import LLM_REQUESTS
from tests.strategies.blocks import EVERY_KIND, rows_of_every_kind

AT = LLM_REQUESTS.fields[0]


@given(rows=rows_of_every_kind(), data=st.data())
def test_the_rows_that_a_mask_names_are_kept_in_order(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """Selecting columns is selecting rows, whatever kinds they have."""
    mask = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    block = block_from_rows(EVERY_KIND, rows)

    kept = select(block, np.array(mask, np.bool_))

    assert rows_of(EVERY_KIND, kept) == [row for row, keep in zip(rows, mask, strict=True) if keep]


def test_all_rows_are_the_block_itself() -> None:
    """Nothing is copied when nothing is left out."""
    block = block_from_rows((AT,), [{"at_ms": 1}, {"at_ms": 2}])

    assert select(block, np.ones(2, np.bool_)) is block
