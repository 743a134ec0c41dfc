"""What start-up made is left out of later searches for cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from runtime.process import settle


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_was_made_is_frozen() -> None:
    """Thresholds stay as they were."""
    before = gc.get_threshold()

    settle()

    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before


def test_thresholds_are_set_where_they_are_given() -> None:
    """As ``gc.set_threshold`` takes them."""
    settle((50_000, 20, 100))

    assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == (50_000, 20, 100)
