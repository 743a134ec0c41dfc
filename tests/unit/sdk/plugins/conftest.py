"""The default client of the SDK, recorded."""

from __future__ import annotations

import pytest

from fleetpulse_track import handover
from tests.unit.producers.receiver import sent


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> sent.Recorded:
    """What the plug-ins send."""
    client = sent.Recorded()
    monkeypatch.setattr(handover, "_default", client)
    return client
