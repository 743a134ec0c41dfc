"""Classes of packages that are not installed here, and what was reported through them."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest

from fleetpulse_track.handover import HEADER
from tests.unit.producers.receiver import sent


def said(client: sent.Recorded) -> list[dict[str, Any]]:
    """The fields of each request."""
    return [json.loads(data[-HEADER.unpack_from(data)[3] :]) for data in client.sent]


def stand_in(module: str, name: str, monkeypatch: pytest.MonkeyPatch) -> type:
    """A stand-in for a class of another package."""
    made = type(name, (), {})
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        absent = ModuleType(".".join(parts[:end]))
        absent.__path__ = []
        monkeypatch.setitem(sys.modules, absent.__name__, absent)
    setattr(sys.modules[module], name, made)
    return made
