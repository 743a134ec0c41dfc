from __future__ import annotations

import threading

import pytest

from producers.agent.choice import Finding, Probed, Wanted, chosen
from producers.agent.search import find, plans_of, setting_of
from producers.agent.sources import SOURCES, Missing, probe_all
from runtime.edge_config import AgentConfig, CollectorSwitches, PlacementConfig, Switch

GPU = ("nvml", "dcgm", "nvidia_smi")


@pytest.mark.parametrize(
    ("there", "switches", "taken"),
    [
        ((), {}, []),
        (("nvml", "dcgm", "nvidia_smi"), {}, ["nvml"]),
        (("dcgm", "nvidia_smi"), {}, ["dcgm"]),
        (("nvidia_smi",), {}, ["nvidia_smi"]),
        (("nvml", "dcgm"), {"nvml": "off"}, ["dcgm"]),
        (("nvml",), {"dcgm": "on"}, ["nvml", "dcgm"]),
        ((), {"nvml": "on"}, ["nvml"]),
        (("nvidia_smi",), {"nvml": "on"}, ["nvml"]),
    ],
    ids=[
        "nothing answers",
        "the first that answers",
        "the next one",
        "the last resort",
        "what is off is not probed",
        "what is on is taken beside",
        "what is on is taken though nothing answers",
        "what is on stands in for those after it",
    ],
)
def test_of_a_group_the_first_that_answers_is_taken(
    there: tuple[str, ...], switches: dict[str, Switch], taken: list[str]
) -> None:
    """In the order of the table."""
    wanted = [Wanted(name, switches.get(name, "auto"), "gpu") for name in GPU]
    probed = {name: Probed(f"{name} answers") if name in there else Probed(None, "nothing there") for name in GPU}

    assert [finding.name for finding in chosen(wanted, probed) if finding.chosen] == taken


def test_while_a_better_one_has_not_answered_none_behind_it_is_taken() -> None:
    """What is taken stays; what is on is taken all the same, and stands in for those after it."""
    late = {name: Probed(f"{name} answers") for name in GPU} | {"dcgm": Probed(None, "no answer", late=True)}
    wanted = [Wanted(name, "auto", "gpu") for name in GPU[1:]]

    assert [finding.name for finding in chosen([Wanted("nvml", "auto", "gpu"), *wanted], late) if finding.chosen] == [
        "nvml"
    ]
    assert chosen(wanted, late) == [
        Finding("dcgm", "auto", False, "no answer"),
        Finding("nvidia_smi", "auto", False, "not yet: dcgm has not answered"),
    ]
    assert [each.chosen for each in chosen([Wanted("dcgm", "on", "gpu"), wanted[1]], late)] == [True, False]


def test_every_finding_says_why() -> None:
    """Found, not needed, not found, off, on in spite of the probe, not probed."""
    wanted = [
        Wanted("nvml", "auto", "gpu"),
        Wanted("dcgm", "auto", "gpu"),
        Wanted("engines", "auto"),
        Wanted("host_devices", "off"),
        Wanted("host", "on"),
        Wanted("other", "auto"),
    ]
    probed = {
        "nvml": Probed("8 GPUs"),
        "dcgm": Probed("a page"),
        "engines": Probed(None, "no port answers"),
        "host": Probed(None, "no /proc"),
    }

    assert chosen(wanted, probed) == [
        Finding("nvml", "auto", True, "8 GPUs"),
        Finding("dcgm", "auto", False, "not needed: nvml answers"),
        Finding("engines", "auto", False, "no port answers"),
        Finding("host_devices", "off", False, "switched off"),
        Finding("host", "on", True, "switched on, though the probe found nothing: no /proc"),
        Finding("other", "auto", False, "not probed"),
    ]


def test_probes_have_a_time_limit_and_may_fail() -> None:
    """One that hangs, one that raises and one that misses hold up no other."""
    woken = threading.Event()

    def hangs() -> str:
        woken.wait(20)
        return "too late"

    def missing() -> str:
        raise Missing("not on PATH")

    def fails() -> str:
        raise OSError("broken")

    found = probe_all({"hangs": hangs, "missing": missing, "fails": fails, "good": lambda: "there"}, 0.2)
    woken.set()

    assert found == {
        "hangs": Probed(None, "no answer within 0.2 s", late=True),
        "missing": Probed(None, "not on PATH"),
        "fails": Probed(None, "OSError: broken"),
        "good": Probed("there"),
    }


def test_every_source_has_its_switch() -> None:
    """And every switch its source."""
    assert [source.name for source in SOURCES] == [
        name for name in CollectorSwitches.model_fields if name in {source.name for source in SOURCES}
    ]


def test_the_identity_comes_from_the_configuration() -> None:
    """Host by the system when it is not named; what is not known of a GPU is left out."""
    placed = {"GPU-1": PlacementConfig(engine_id="e", workload="training")}

    named = setting_of(AgentConfig(host="h", cluster="c", placement=placed)).identity
    unnamed = setting_of(AgentConfig()).identity

    assert named.labels == {"host": "h", "cluster": "c", "region": None}
    assert dict(named.placement) == {"GPU-1": {"engine_id": "e", "workload": "training"}}
    assert unnamed.labels["host"]


def test_what_is_chosen_becomes_a_plan_with_its_limits() -> None:
    """And what is off does not."""
    switches = CollectorSwitches.model_validate(dict.fromkeys(CollectorSwitches.model_fields, "off") | {"host": "on"})
    setting = setting_of(AgentConfig(collectors=switches, call_limit_ms=700, hung_threads_max=2))

    plans = plans_of(setting, find(setting))

    assert [(plan.name, plan.limit_ms, plan.hung_max) for plan in plans] == [("host", 700, 2)]
    assert plans[0].make().name == "host"
