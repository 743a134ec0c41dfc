"""One open alert per cause: what joins whom, and what does not.

Covers stream_jobs.alerts.incidents.
"""

from __future__ import annotations

from dataclasses import replace

from stream_jobs.rules.model import RuleSet
from tests.unit.stream_jobs.alerts.cases import RULES, Scene, short


def members(scene: Scene) -> list[list[str]]:
    """The rules of the members of each open alert."""
    return [sorted(member.rule for member in alert.members) for alert in scene.open()]


def test_a_lost_gpu_is_one_alert_with_all_it_does() -> None:
    """Event, silence, errors of the engine, latency of its model and the tenant's budget: one alert, one headline."""
    scene = Scene()

    scene.gpu_event("gpu_lost", "g-10")
    scene.see(scene.fire("gpu_silent", gpu_uuid="g-10"), scene.fire("engine_errors", engine_id="h-1/e-0"))
    scene.see(scene.fire("model_slow", model="llama"))
    scene.see(scene.fire("budget_burns", tenant="t-llama", model="llama"))
    scene.pass_windows(7)

    assert short(scene.told) == [
        ("opened", "gpu_lost", "g-10"),
    ]
    assert scene.life.store.open()[0].alert("updated", 0, 50).members != ()
    incident = scene.life.store.open()[0]
    assert sorted(part.signal.rule for part in incident.parts.values()) == [
        "budget_burns",
        "engine_errors",
        "gpu_lost",
        "gpu_silent",
        "model_slow",
    ]


def test_a_cause_that_comes_after_its_symptom_becomes_the_headline() -> None:
    """Model first, then engine, then GPU: the alert stays the same and names the likelier cause each time."""
    scene = Scene()

    scene.see(scene.fire("model_slow", model="llama"))
    scene.see(scene.fire("engine_slow", engine_id="h-2/e-0"))
    scene.see(scene.fire("gpu_throttled", gpu_uuid="g-20"))

    assert short(scene.told) == [
        ("opened", "model_slow", "llama"),
        ("updated", "engine_slow", "h-2/e-0"),
        ("updated", "gpu_throttled", "g-20"),
    ]
    assert len({alert.fingerprint for alert in scene.told}) == 1
    assert [alert.number for alert in scene.told] == [1, 2, 3]


def test_a_host_down_is_one_alert_although_its_gpus_and_engines_are_told_first() -> None:
    """Silent GPUs and engines of a host that is silent altogether belong together; the host becomes the headline."""
    scene = Scene()
    down = ("h-1",)
    silent = [("gpu_silent", {"gpu_uuid": gpu}) for gpu in ("g-10", "g-11", "g-12", "g-13")]
    silent += [("engine_silent", {"engine_id": engine}) for engine in ("h-1/e-0", "h-1/e-1")]

    scene.see(silent=down)
    scene.see(*(scene.fire(name, **labels) for name, labels in silent), silent=down)
    scene.see(scene.fire("host_silent", host="h-1"), silent=down)

    assert [alert.transition for alert in scene.told] == ["opened", "updated"]
    assert short(scene.open()) == [("updated", "host_silent", "h-1")]
    assert members(scene) == [["engine_silent"] * 2 + ["gpu_silent"] * 4]


def test_engines_of_a_host_that_fail_together_have_one_cause() -> None:
    """Half of a host's engines with the same trouble are one alert; what is told of the host later is its headline."""
    scene = Scene()

    scene.see(scene.fire("engine_errors", engine_id="h-1/e-0"), scene.fire("engine_errors", engine_id="h-1/e-1"))
    scene.see(scene.fire("host_silent", host="h-1"), silent=("h-1",))

    assert short(scene.told) == [("opened", "engine_errors", "h-1"), ("updated", "host_silent", "h-1")]


def test_one_throttled_gpu_of_a_group_is_one_alert() -> None:
    """Straggler and throttle of one GPU, its peer waiting for it, latency of engine and model."""
    scene = Scene()

    scene.see(
        scene.fire("engine_slow", engine_id="h-1/e-0"),
        scene.fire("gpu_throttled", gpu_uuid="g-11"),
        scene.fire("gpu_straggler", gpu_uuid="g-11", engine_id="h-1/e-0"),
        scene.fire("model_slow", model="llama"),
    )

    assert [(a.transition, a.labels["gpu_uuid"], a.labels["host"]) for a in scene.told] == [("opened", "g-11", "h-1")]
    assert short(scene.open())[0][1] == "gpu_straggler"
    assert members(scene) == [["engine_slow", "gpu_throttled", "model_slow"]]


def test_a_slower_version_is_the_headline_of_its_engines() -> None:
    """Most engines of a model differ from their past and the version from the ones before: the version is the cause."""
    scene = Scene()
    engines = ("h-1/e-0", "h-2/e-0", "h-3/e-0")

    scene.see(*(scene.fire("engine_slow", engine_id=engine) for engine in engines[:2]))
    scene.see(scene.fire("engine_slow", engine_id=engines[2]), scene.fire("model_slow", model="llama"))
    scene.see(scene.fire("version_slower", model="llama", model_version="v1"))

    assert [alert.transition for alert in scene.told if alert.transition == "opened"] == ["opened"]
    assert short(scene.open()) == [("updated", "version_slower", "v1")]


def test_many_engines_with_one_trouble_are_named_by_what_they_share() -> None:
    """Model and version in place of one engine, also when the second comes later; the first record names the first."""
    scene = Scene()

    scene.see(scene.fire("engine_slow", engine_id="h-1/e-0"))
    scene.see(scene.fire("engine_slow", engine_id="h-1/e-0"), scene.fire("engine_slow", engine_id="h-3/e-0"))

    assert [(alert.transition, alert.labels.get("engine_id")) for alert in scene.told] == [
        ("opened", "h-1/e-0"),
        ("updated", None),
    ]
    assert scene.told[1].labels == {"cluster": "c-1", "model": "llama", "model_version": "v1"}
    assert scene.told[1].summary.endswith("(and 1 more like it)")


def test_a_version_that_is_on_few_engines_is_what_these_share() -> None:
    """Two of five engines serve it, and both are slow: fewer than half of the model's, all of the version's."""
    scene = Scene()
    for number, version in enumerate(("v1", "v2", "v2", "v1")):
        engine = f"h-9/e-{number}"
        scene.life.topology.learn_row({"host": "h-9", "engine_id": engine, "model": "m", "model_version": version}, 0)
        scene.life.topology.learn_row({"host": f"h-8{number}", "engine_id": engine}, 0)
    scene.life.topology.learn_row({"host": "h-7", "engine_id": "h-9/e-4", "model": "m", "model_version": "v1"}, 0)

    scene.see(scene.fire("engine_slow", engine_id="h-9/e-1"), scene.fire("engine_slow", engine_id="h-9/e-2"))

    assert [(a.transition, a.labels) for a in scene.told] == [("opened", {"model": "m", "model_version": "v2"})]


def test_a_slower_version_takes_in_the_engines_that_were_told_one_by_one() -> None:
    """Two alerts that turn out to be one: the younger is resolved and says where it went."""
    scene = Scene()

    scene.see(scene.fire("engine_slow", engine_id="h-1/e-0"))
    scene.see(scene.fire("version_slower", model="llama", model_version="v1"))
    first = scene.told[0].fingerprint

    assert short(scene.told) == [
        ("opened", "engine_slow", "h-1/e-0"),
        ("updated", "version_slower", "v1"),
    ]
    assert {alert.fingerprint for alert in scene.told} == {first}


def test_a_second_engine_at_fault_is_an_alert_of_its_own_though_the_model_is_shared() -> None:
    """KV pressure here and errors there: two alerts; the model's latency joins one of them and glues nothing."""
    scene = Scene()

    scene.see(scene.fire("engine_kv", engine_id="h-1/e-0"))
    scene.see(scene.fire("model_slow", model="llama"))
    scene.see(scene.fire("engine_errors", engine_id="h-2/e-0"))

    assert [one for one in short(scene.told) if one[0] == "opened"] == [
        ("opened", "engine_kv", "h-1/e-0"),
        ("opened", "engine_errors", "h-2/e-0"),
    ]
    assert len(scene.open()) == 2


def test_a_model_does_not_join_an_engine_that_does_not_serve_it() -> None:
    """The other model's latency is another alert."""
    scene = Scene()

    scene.see(scene.fire("engine_kv", engine_id="h-1/e-1"))
    scene.see(scene.fire("model_slow", model="llama"))

    assert short(scene.open()) == [("opened", "engine_kv", "h-1/e-1"), ("opened", "model_slow", "llama")]


def test_gpus_of_two_groups_on_one_host_are_two_alerts() -> None:
    """A host alone connects nothing: it takes a trouble of the whole host."""
    scene = Scene()

    scene.gpu_event("xid", "g-10", code=48)
    scene.pass_windows(18)
    scene.gpu_event("xid", "g-12", code=48)

    assert short(scene.open()) == [("opened", "gpu_xid", "g-10"), ("opened", "gpu_xid", "g-12")]


def test_all_gpus_of_a_host_with_the_same_trouble_are_one_alert() -> None:
    """A power brake of the whole host is told once."""
    scene = Scene()

    scene.see(*(scene.fire("gpu_throttled", gpu_uuid=gpu) for gpu in ("g-10", "g-11", "g-12", "g-13")))

    assert short(scene.told) == [("opened", "gpu_throttled", "h-1")]
    assert members(scene) == [["gpu_throttled"] * 3]


def test_hosts_that_fall_silent_together_have_one_cause() -> None:
    """A cut network is one alert; a host that falls silent a minute later is another."""
    scene = Scene()
    lost = scene.window

    scene.see(scene.fire("host_silent", host="h-1"), scene.fire("host_silent", host="h-2"), silent=("h-1", "h-2"))
    scene.pass_windows(6)
    scene.see(scene.fire("host_silent", host="h-3"), silent=("h-1", "h-2", "h-3"))

    assert lost == 1
    assert short(scene.open()) == [("opened", "host_silent", "h-1"), ("opened", "host_silent", "h-3")]
    assert members(scene) == [["host_silent"], []]


def test_a_leak_that_goes_on_for_hours_is_not_the_cause_of_what_begins_late() -> None:
    """An error burst of the same engine two hours into a leak is another alert; one that begins with it is not."""
    scene = Scene()

    scene.see(scene.fire("gpu_leak", gpu_uuid="g-20"))
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    for _ in range(300):
        scene.see(scene.fire("gpu_leak", gpu_uuid="g-30"))
    scene.see(scene.fire("engine_errors", engine_id="h-3/e-0"))

    assert [one for one in short(scene.told) if one[0] == "opened"] == [
        ("opened", "gpu_leak", "g-20"),
        ("opened", "gpu_leak", "g-30"),
        ("opened", "engine_errors", "h-3/e-0"),
    ]


def test_a_leak_that_fills_the_memory_stays_one_alert() -> None:
    """The same figure of the same GPU, hours later."""
    scene = Scene()
    for _ in range(200):
        scene.see(scene.fire("gpu_leak", gpu_uuid="g-20"))

    scene.see(scene.fire("gpu_leak", gpu_uuid="g-20"), scene.fire("gpu_filled", gpu_uuid="g-20"))

    assert [(a.transition, a.rule, a.severity) for a in scene.told] == [
        ("opened", "gpu_leak", "warning"),
        ("updated", "gpu_filled", "critical"),
    ]


def test_what_has_been_open_for_long_takes_in_no_other_trouble() -> None:
    """A host's memory has been high for hours: its engine's errors and its GPU's heat are told apart from it."""
    scene = Scene()
    for _ in range(100):
        scene.see(scene.fire("host_memory", host="h-2"))

    scene.see(scene.fire("host_memory", host="h-2"), scene.fire("engine_kv", engine_id="h-2/e-0"))
    scene.see(scene.fire("host_memory", host="h-2"), scene.fire("gpu_throttled", gpu_uuid="g-20"))

    assert short(scene.told) == [
        ("opened", "host_memory", "h-2"),
        ("opened", "engine_kv", "h-2/e-0"),
        ("updated", "gpu_throttled", "g-20"),
    ]


def test_a_slow_drift_stays_one_alert_as_more_of_it_shows() -> None:
    """Requests of the engine have been slow for an hour when the model's begin to show it."""
    scene = Scene()
    for _ in range(360):
        scene.see(scene.fire("engine_slow", engine_id="h-2/e-0"))

    scene.see(scene.fire("engine_slow", engine_id="h-2/e-0"), scene.fire("model_slow", model="llama"))

    assert short(scene.told) == [("opened", "engine_slow", "h-2/e-0"), ("updated", "engine_slow", "h-2/e-0")]


def test_a_symptom_joins_the_cause_that_began_nearest_to_it() -> None:
    """Of two faulty engines of a model the one that has just begun is the likelier cause."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-1/e-0"))
    for _ in range(30):
        scene.see(scene.fire("engine_kv", engine_id="h-1/e-0"))
    scene.see(scene.fire("engine_kv", engine_id="h-1/e-0"), scene.fire("engine_errors", engine_id="h-2/e-0"))

    scene.see(scene.fire("model_slow", model="llama"))
    scene.pass_windows(7)

    assert short(scene.open()) == [("opened", "engine_kv", "h-1/e-0"), ("updated", "engine_errors", "h-2/e-0")]
    assert members(scene) == [[], ["model_slow"]]


def test_a_burning_budget_joins_what_burns_it_hours_later() -> None:
    """Burn rates look back; a latency of the model an hour after the cause began is told apart."""
    scene = Scene()
    for _ in range(360):
        scene.see(scene.fire("engine_kv", engine_id="h-1/e-0"))

    scene.see(scene.fire("engine_kv", engine_id="h-1/e-0"), scene.fire("budget_burns", tenant="t-llama", model="llama"))
    scene.see(scene.fire("engine_kv", engine_id="h-1/e-0"), scene.fire("model_slow", model="llama"))

    assert [one for one in short(scene.told) if one[0] == "opened"] == [
        ("opened", "engine_kv", "h-1/e-0"),
        ("opened", "model_slow", "llama"),
    ]


def test_two_models_that_stand_on_one_broken_host_become_one_alert_with_it() -> None:
    """Symptoms told apart are resolved into the alert of their cause."""
    scene = Scene()

    scene.see(scene.fire("model_slow", model="llama"))
    scene.see(scene.fire("model_slow", model="qwen"))
    opened = [alert.fingerprint for alert in scene.told]
    scene.see(scene.fire("host_silent", host="h-1"), silent=("h-1",))

    assert short(scene.told)[2:] == [("updated", "host_silent", "h-1"), ("resolved", "model_slow", "qwen")]
    assert [alert.fingerprint for alert in scene.told[2:]] == opened
    assert scene.told[-1].note == f"same cause as {opened[0]}"


def test_what_turns_out_to_be_a_part_brings_its_severity_with_it() -> None:
    """A page that ends as part of a warning makes that one a page."""
    scene = Scene()
    scene.gpu_event("xid", "g-10", code=48, severity="critical")
    scene.see(scene.fire("engine_slow", engine_id="h-1/e-1"))
    scene.gpu_event("xid", "g-12", code=31, severity="warning")

    found = {alert.fingerprint: alert for alert in scene.told}

    assert sorted((one.transition, one.severity, one.rule) for one in found.values()) == [
        ("resolved", "critical", "gpu_xid"),
        ("updated", "critical", "engine_slow"),
    ]


def test_a_whole_fleet_that_errs_joins_what_just_began() -> None:
    """A figure of the whole cluster is a symptom of the cause that is open."""
    scene = Scene()

    scene.see(scene.fire("host_silent", host="h-2"), silent=("h-2",))
    scene.see(scene.fire("fleet_errors", cluster="c-1"), silent=("h-2",))

    assert short(scene.told) == [("opened", "host_silent", "h-2")]


def test_what_needs_nobody_takes_in_nothing_that_needs_somebody() -> None:
    """A GPU that has been full for a while is no part of its loss; one that fills up as it is lost is."""
    scene = Scene()
    scene.see(scene.fire("gpu_full", gpu_uuid="g-20"))
    for _ in range(100):
        scene.see(scene.fire("gpu_full", gpu_uuid="g-20"))
    scene.see(scene.fire("gpu_full", gpu_uuid="g-30"))
    scene.gpu_event("gpu_lost", "g-20")
    scene.gpu_event("gpu_lost", "g-30")

    assert short(scene.open()) == [
        ("opened", "gpu_full", "g-20"),
        ("updated", "gpu_lost", "g-30"),
        ("opened", "gpu_lost", "g-20"),
    ]


def test_a_slower_version_says_on_how_many_hosts() -> None:
    """Counted over the engines that serve it; unknown of a model that none is known to serve."""
    slower = next(rule for rule in RULES if rule.name == "version_slower")
    scene = Scene(ruleset=RuleSet((replace(slower, summary="{model_version} on {hosts}"),)))

    scene.see(
        scene.fire("version_slower", model="llama", model_version="v1"),
        scene.fire("version_slower", model="qwen", model_version="v1"),
        scene.fire("version_slower", model="other", model_version="v9"),
    )

    assert sorted(alert.summary for alert in scene.told) == ["v1 on 1 host", "v1 on 3 hosts", "v9 on unknown"]
