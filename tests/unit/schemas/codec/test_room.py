"""Room for more: nothing is lost, nothing is copied while there is enough."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.codec.room import grown


@pytest.mark.parametrize("shape", [(4,), (4, 2)])
@pytest.mark.parametrize(("least", "length"), [(5, 8), (8, 8), (9, 9)])
def test_what_was_there_stays_and_the_rest_is_zero(shape: tuple[int, ...], least: int, length: int) -> None:
    """At least as long as wanted and at least twice as long as before, of the same kind."""
    before = np.arange(1, 1 + int(np.prod(shape)), dtype=np.int16).reshape(shape)
    found = grown(before, least)
    assert (found.shape, found.dtype) == ((length, *shape[1:]), before.dtype)
    assert (found[:4] == before).all()
    assert not found[4:].any()


def test_an_array_that_is_long_enough_is_the_answer() -> None:
    array = np.zeros(4)
    assert grown(array, 4) is array
