"""What an agent knows of its host's engines, and when others hear of it."""

from __future__ import annotations

from dataclasses import replace

from producers.identity.host_engines import HostEngines
from schemas.contract.engines import ADDRESSES_MAX, Engine

SEEN = Engine("e", "", "g", ("h-1:8000",))


def test_an_engine_is_known_with_the_labels_of_its_host() -> None:
    """A change is announced; the same once more is none."""
    changes: list[int] = []
    engines = HostEngines("h-1", region="eu", cluster="c")
    engines.on_change = lambda: changes.append(1)

    engines.saw(SEEN)
    engines.saw(SEEN)

    known = replace(SEEN, host="h-1", region="eu", cluster="c")
    assert engines.directory.at("localhost:8000") == known
    assert len(changes) == 1
    engines.saw(replace(SEEN, model="m"))
    assert engines.directory.named("e") == replace(known, model="m")
    assert len(changes) == 2


def test_an_engine_that_is_silent_keeps_its_identity() -> None:
    """Requests that fail meanwhile are its requests; one that is not known stays so."""
    engines = HostEngines("h-1")
    engines.saw(SEEN)

    engines.silent("e")
    engines.silent("other")

    assert engines.directory.engines == (replace(SEEN, host="h-1", responding=False),)


def test_what_was_known_before_a_restart_yields_to_what_is_seen() -> None:
    """Engines of another host, as after it was renamed, are not taken over."""
    engines = HostEngines("h-1")
    engines.saw(SEEN)

    engines.restore([Engine("e", "h-1", "old"), Engine("f", "h-1", "f"), Engine("g", "h-0", "g")])

    assert {each.engine_id: each.placement_group for each in engines.directory.engines} == {"e": "g", "f": "f"}


def test_addresses_are_those_of_the_machine_and_those_configured() -> None:
    """Of an engine elsewhere, its own name alone; never more than a record holds."""
    engines = HostEngines("h-1", ["h-1", "10.0.0.7", "[fd00::7]"])

    assert engines.addresses(None, 8000) == ("h-1:8000", "10.0.0.7:8000", "[fd00::7]:8000")
    assert engines.addresses("pod-1", 8000, ["llm.svc:80"]) == ("llm.svc:80", "pod-1:8000")
    assert len(HostEngines("h", map(str, range(99))).addresses(None, 1)) == ADDRESSES_MAX
