"""``stream_jobs.alerts.signals``: what a signal is about, and what it is called."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.alerts.connect import keys_of
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.alerts.signals import Level, Rank, Signal, identity, of_finding
from stream_jobs.alerts.topology import Topology
from tests.unit.stream_jobs.alerts.cases import Scene, finding, rule

TEXTS = st.text(st.sampled_from("a\\=_\x1f"), max_size=4)


def signal(by: tuple[str, ...], **labels: str) -> Signal:
    """Of a rule that tells silence."""
    found = replace(finding("silent", 0), labels=tuple(labels.items()))
    return of_finding(rule("silent", "no_data", "engine.samples", by), found, labels)


@pytest.mark.parametrize(
    ("by", "labels", "level", "rank"),
    [
        (("host", "engine_id"), {"host": "h"}, Level.ENGINE, Rank.ENGINE),
        (("host", "engine_id"), {"host": "h", "engine_id": "e"}, Level.ENGINE, Rank.ENGINE),
        (("host", "gpu_uuid"), {"host": "h"}, Level.GPU, Rank.GPU),
        (("host",), {"host": "h"}, Level.HOST, Rank.LOST),
        (("host", "region"), {"host": "h"}, Level.HOST, Rank.HOST),
        (("tenant", "model"), {"model": "m"}, Level.TENANT, Rank.TENANT),
    ],
)
def test_what_has_no_name_is_not_taken_for_what_it_stands_on(
    by: tuple[str, ...], labels: dict[str, str], level: Level, rank: Rank
) -> None:
    """A silent engine that nobody named is no lost host: only a rule of hosts tells that."""
    one = signal(by, **labels)

    assert (one.level, one.rank) == (level, rank)


@pytest.mark.parametrize("by", [("host",), ("host", "engine_id"), ("gpu_uuid",), ("tenant",), ("model",)])
def test_what_has_no_label_at_all_connects_nothing(by: tuple[str, ...]) -> None:
    """Nor does it raise."""
    keys = keys_of(signal(by), Topology(AlertPolicy()))

    assert (keys.holds, keys.seeks) == ((), ())


def test_a_nameless_engine_that_falls_silent_takes_in_nothing_of_its_host() -> None:
    """Other engines of the host have their own alerts."""
    scene = Scene()
    nameless = rule("engine_gone", "no_data", "engine.samples", ("host", "engine_id"))
    scene.life._rules["engine_gone"] = nameless

    scene.see(scene.fire("engine_gone", host="h-1"))
    scene.see(scene.fire("engine_gone", host="h-1"), scene.fire("engine_kv", engine_id="h-1/e-1"))

    assert [(alert.transition, alert.rule) for alert in scene.told] == [
        ("opened", "engine_gone"),
        ("opened", "engine_kv"),
    ]


def test_ordinary_labels_stand_in_the_identity_as_they_are() -> None:
    """So that fingerprints stay the same."""
    assert identity("r", (("model", "a=b/c"), ("host", "h"))) == "r\x1fhost=h\x1fmodel=a=b/c"


@given(st.tuples(TEXTS, TEXTS), st.tuples(TEXTS, TEXTS))
def test_no_value_passes_for_two(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Whatever tenants call themselves."""
    names = ("model", "tenant")
    same = identity("r", tuple(zip(names, one, strict=True))) == identity("r", tuple(zip(names, other, strict=True)))

    assert same == (one == other)
    assert identity("r", (("model", f"{one[0]}\x1ftenant={one[1]}"),)) != identity(
        "r", tuple(zip(names, one, strict=True))
    )
