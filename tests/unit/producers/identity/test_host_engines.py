"""What an agent knows of its host's engines, and when others hear of it."""

from __future__ import annotations

from dataclasses import replace

from producers.identity.host_engines import NAMES_EVERY_S, HostEngines
from schemas.contract.engines import ADDRESSES_MAX, FORGOTTEN_AFTER_MS, Engine
from tests.virtual_clock import VirtualClock

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
    engines = HostEngines("h-1", lambda: ["h-1", "10.0.0.7", "[fd00::7]"])

    assert engines.addresses(None, 8000) == ("h-1:8000", "10.0.0.7:8000", "[fd00::7]:8000")
    assert engines.addresses("pod-1", 8000, ["llm.svc:80"]) == ("llm.svc:80", "pod-1:8000")
    assert len(HostEngines("h", lambda: map(str, range(99))).addresses(None, 1)) == ADDRESSES_MAX


def test_an_address_that_the_machine_gets_later_is_known() -> None:
    """Within a minute, and one that it loses is not any more; they are not read for every engine and reading."""
    clock, names, reads = VirtualClock(), ["10.0.0.7"], list[int]()

    def read() -> list[str]:
        reads.append(1)
        return list(names)

    engines = HostEngines("h-1", read, clock=clock)
    assert engines.addresses(None, 8000) == ("h-1:8000", "10.0.0.7:8000")
    names[:] = ["10.0.0.8"]
    clock.advance(int(NAMES_EVERY_S * 1_000) - 1)
    assert engines.addresses(None, 8000) == ("h-1:8000", "10.0.0.7:8000")
    clock.advance(1)

    assert engines.addresses(None, 8000) == ("h-1:8000", "10.0.0.8:8000")
    assert len(reads) == 2


def test_an_engine_that_has_not_responded_for_a_day_is_forgotten() -> None:
    """Its time stays when it last responded, over a restart of the agent too; one that is back begins anew."""
    engines = HostEngines("h-1")
    known = replace(SEEN, host="h-1", reported_ms=1_000)
    engines.saw(SEEN)
    assert engines.report(1_000) == []
    engines.silent("e")
    assert engines.report(2_000) == []
    assert engines.directory.engines == (replace(known, responding=False),)
    engines.saw(SEEN)
    engines.report(3_000)
    assert engines.directory.engines == (replace(known, reported_ms=3_000),)
    again = HostEngines("h-1")
    again.restore([replace(known, reported_ms=3_000, responding=False)])

    assert again.report(FORGOTTEN_AFTER_MS + 2_999) == []
    assert again.report(FORGOTTEN_AFTER_MS + 3_000) == [known.key]
    assert again.directory.engines == ()
    again.saw(SEEN)
    assert again.directory.named("e") == replace(known, reported_ms=0)


def test_an_engine_that_went_silent_before_it_was_reported_has_a_day_from_then() -> None:
    """It is not forgotten at once for having no time."""
    engines = HostEngines("h-1")
    engines.saw(SEEN)
    engines.silent("e")

    assert engines.report(FORGOTTEN_AFTER_MS * 9) == []
    assert [each.reported_ms for each in engines.directory.engines] == [FORGOTTEN_AFTER_MS * 9]


def test_a_report_is_no_change() -> None:
    """Else each would be followed by the next."""
    changes: list[int] = []
    engines = HostEngines("h-1")
    engines.saw(SEEN)
    engines.on_change = lambda: changes.append(1)
    engines.report(1_000)
    engines.saw(SEEN)

    assert changes == []


def test_a_connection_is_of_this_machine_by_loopback_or_one_of_its_addresses() -> None:
    """IPv4 within IPv6 too, as a socket of both has it; what has no address is not."""
    engines = HostEngines("h-1", lambda: ["h-1", "10.0.0.7", "[fd00::7]"])
    here = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.7", "::ffff:10.0.0.7", "fd00::7"]

    assert [engines.is_here(each) for each in (*here, "10.0.0.8", "fd00::8", "0.0.0.0", "")] == [True] * 6 + [False] * 4
