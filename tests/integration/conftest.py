"""What every file of integration tests ends with."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.integration.runner_behaviour", "tests.integration.runner_rig")


@pytest.fixture(scope="module", autouse=True)
def _leaves_nothing_open() -> Iterator[None]:
    """A connection that a file left open is an error of its last test, not of one elsewhere that happens to run when
    the garbage collector finds it."""
    yield
    gc.collect()
