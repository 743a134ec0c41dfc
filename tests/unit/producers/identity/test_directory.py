"""Engines by id and by address, and what a request takes over from its engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from producers.identity.directory import Directory, Layers
from schemas.contract.engines import REPEATED_EVERY_MS, Engine

A = Engine("a", "h-1", "a+b", ("h-1:8000", "10.0.0.7:8000", "[fd00::7]:8000"), model_version="r1", precision="bf16")
B = Engine("b", "h-1", "a+b", ("h-1:8001",))


@pytest.mark.parametrize(
    "address",
    ["h-1:8000", "H-1:8000", "10.0.0.7:8000", "[fd00::7]:8000", "127.0.0.1:8000", "localhost:8000", "[::1]:8000"],
)
def test_an_engine_is_found_under_every_address_of_its_host(address: str) -> None:
    """Loopback means the host of the directory."""
    assert Directory([A, B], "h-1").at(address) == A


@pytest.mark.parametrize("address", ["h-1:8002", "h-2:8000", "", ":", "8000", "h-1"])
def test_other_addresses_lead_to_none(address: str) -> None:
    """A port where nothing is known, another host, and what is no address."""
    assert Directory([A, B], "h-1").at(address) is None


def test_loopback_means_nothing_where_the_host_is_not_known() -> None:
    """In another network namespace it is another machine's."""
    assert Directory([A, B]).at("127.0.0.1:8000") is None
    assert Directory([A, B]).at("10.0.0.7:8000") == A


def test_of_several_engines_under_an_address_the_one_that_responds_counts() -> None:
    """A predecessor under another id; of two that respond, none."""
    old = replace(A, engine_id="old", responding=False)

    assert Directory([old, A]).at("h-1:8000") == A
    assert Directory([replace(old, responding=True), A]).at("h-1:8000") is None
    assert Directory([old]).at("h-1:8000") == old


@pytest.mark.parametrize(
    ("reported_ms", "found"),
    [(5 * REPEATED_EVERY_MS, True), (2 * REPEATED_EVERY_MS, False), (0, False)],
    ids=["long after the other", "both are repeated", "new, not yet dated"],
)
def test_a_record_that_is_no_longer_repeated_claims_no_address(reported_ms: int, found: bool) -> None:
    """Its host died as it responded; the engine moved to another host with its address."""
    dead = replace(A, host="dead", reported_ms=2 * REPEATED_EVERY_MS - 1)
    moved = replace(A, reported_ms=reported_ms)

    for directory in (Directory([dead, moved]), Directory([moved, dead])):
        assert directory.at("10.0.0.7:8000") == directory.named("a") == (moved if found else None)


def test_an_engine_that_is_put_again_or_forgotten_leaves_no_address() -> None:
    """What it was before is gone; an address that it shared is the other's alone."""
    directory = Directory([A, replace(B, addresses=("h-1:8001", "10.0.0.7:8000"))], "h-1")
    assert directory.at("10.0.0.7:8000") is None
    moved = replace(A, addresses=("h-1:9000",))

    directory.put(moved)
    assert directory.at("h-1:8000") is None
    assert directory.at("h-1:9000") == directory.named("a") == moved
    assert directory.at("10.0.0.7:8000") == directory.named("b")
    directory.forget(moved.key)
    directory.forget(moved.key)
    assert directory.named("a") is directory.at("h-1:9000") is None
    assert directory.count == 1


def test_a_row_takes_over_what_it_lacks() -> None:
    """What the edge knew itself stays."""
    directory = Directory([A, B], "h-1")
    all_of_it = {"engine_id": "a", "placement_group": "a+b", "model_version": "r1", "precision": "bf16"}

    assert directory.joined({}, "localhost:8000") == (all_of_it, A)
    assert directory.joined({"engine_id": "a"}) == (all_of_it, A)
    assert directory.joined({"engine_id": "h-1:8000"}) == (all_of_it, A)
    assert directory.joined({}, "a") == (all_of_it, A)
    assert directory.joined({"precision": "fp8", "placement_group": "g"}, "h-1:8000") == (
        {"engine_id": "a", "model_version": "r1"},
        A,
    )


def test_a_row_of_an_unknown_engine_takes_over_nothing() -> None:
    """An id that is not known is not replaced by what stands under an address."""
    directory = Directory([A], "h-1")

    assert directory.joined({}, None) == ({}, None)
    assert directory.joined({}, "h-9:1") == ({}, None)
    assert directory.joined({"engine_id": "c"}, "h-1:8000") == ({}, None)


def test_the_first_layer_that_knows_an_engine_counts() -> None:
    """The host's own knowledge before that of the topic, which may be older."""
    newer, other = replace(A, precision="fp8"), Engine("c", "h-2", "c", ("h-2:8000",))
    layers = Layers(Directory([newer], "h-1"), Directory([A, other]))

    assert layers.at("127.0.0.1:8000") == newer
    assert layers.named("a") == newer
    assert layers.at("h-2:8000") == other
    assert layers.named("d") is None
    assert layers.serving("m") is None
    assert layers.keyed(other.key) == other
    assert (layers.count, layers.engines) == (3, (newer, A, other))


def test_an_engine_is_found_by_the_model_that_it_alone_serves() -> None:
    """Of two, the one that responds."""
    first, second = replace(A, model="m"), replace(B, model="m")

    assert Directory([first, B]).serving("m") == first
    assert Directory([first, second]).serving("m") is None
    assert Directory([replace(first, responding=False), second]).serving("m") == second
    assert Directory([first]).serving("other") is None
