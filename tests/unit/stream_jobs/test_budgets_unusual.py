"""Rules of unusual days: what each is called, and what none may be."""

from __future__ import annotations

import pytest

from schemas.errors import ConfigError
from stream_jobs.budgets.unusual import Unusual


def test_a_rule_is_known_by_its_share() -> None:
    """As it stands in the labels of an alert."""
    assert [Unusual("all", share, 1).level for share in (2_000_000, 1_505_000)] == ["unusual 200%", "unusual 150.5%"]


@pytest.mark.parametrize(
    ("each", "share_ppm", "least_nusd", "key"),
    [("team", 2_000_000, 1, "each"), ("all", 1_000_000, 1, "above"), ("all", 10_000_001, 1, "above"),
     ("all", 2_000_000, 0, "at_least")],
    ids=["of nobody known", "no more than usual", "beyond the bound", "any sum"],
)  # fmt: skip
def test_a_rule_that_cannot_be(each: str, share_ppm: int, least_nusd: int, key: str) -> None:
    """Told with the key that is wrong."""
    with pytest.raises(ConfigError, match=f"unusual: {key}"):
        Unusual(each, share_ppm, least_nusd)
