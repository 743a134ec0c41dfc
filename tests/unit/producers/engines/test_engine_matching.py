from __future__ import annotations

from producers.engines.matching import ProcessMatcher
from producers.engines.places import Places
from producers.engines.processes import ProcessTable
from producers.engines.target import EngineTarget


def test_every_look_places_the_gpus_anew() -> None:
    """And tells no rows of its own."""
    tables = [ProcessTable(gpus={"G0": {}}), ProcessTable({8000: {10}}, {}, {"G0": {10: "vllm"}})]
    places = Places("h")
    places.saw_engine(EngineTarget("e", "http://127.0.0.1:8000"))
    matcher = ProcessMatcher(places, 30_000, read_processes=lambda: tables.pop(0))

    assert (matcher.name, matcher.period_ms) == ("placement", 30_000)
    assert matcher.collect(1) == []
    assert dict(places.placement) == {"G0": {"engine_id": None, "placement_group": "h", "workload": "idle"}}
    assert matcher.collect(2) == []
    assert dict(places.placement) == {"G0": {"engine_id": "e", "placement_group": "e", "workload": "inference"}}
    matcher.close()
