from __future__ import annotations

import pytest

from producers.publish.reconnect import BEAT_MS, until_beat_s


@pytest.mark.parametrize(
    ("now_ms", "pause_s", "until_s"),
    [
        (7_000 + BEAT_MS, 1.0, 1.0),
        (7_000 + BEAT_MS - 1, 1.0, 1.001),
        (7_000 + BEAT_MS + 1, 1.0, 0.999),
        (7_000 + BEAT_MS + 499, 1.0, 0.501),
        (7_000 + BEAT_MS + 500, 1.0, 1.5),
        (7_000 + BEAT_MS - 500, 1.0, 1.5),
        (7_000 + BEAT_MS - 501, 1.0, 0.501),
        (7_000 + BEAT_MS + 20, 5.0, 4.98),
        (7_000, 0.999, 0.999),
        (7_000, 0.02, 0.02),
    ],
)
def test_a_pause_ends_with_the_nearest_beat(now_ms: int, pause_s: float, until_s: float) -> None:
    """Half a second more or less at the most; what was to come sooner than in a second comes then."""
    assert until_beat_s(now_ms, pause_s) == pytest.approx(until_s, abs=1e-9)
