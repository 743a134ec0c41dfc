"""The life of an alert: opened, updated when a person cares, resolved once it is over, and what time does to it.

Covers stream_jobs.alerts.events.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from schemas.contract.alert_commands import Command
from schemas.contract.alerts import Alert, Member
from schemas.errors import RejectedError
from stream_jobs.alerts.policy import AlertPolicy
from stream_jobs.rules.load import load_set
from stream_jobs.rules.model import GpuEvent, RuleSet
from tests.unit.stream_jobs.alerts.cases import RULES, RULESET, WINDOW, Scene, at, finding, short

HOLD = 12
"""Windows of ``hold_ms``."""


def test_an_alert_says_everything_about_its_headline() -> None:
    """Rule, labels with what the topology adds, figures, times: the whole record."""
    scene = Scene(evidence={"requests": [{"request_id": "r-1"}]})

    told = scene.see(scene.fire("engine_slow", engine_id="h-2/e-0"))

    fingerprint = sha256(b"engine_slow\x1fengine_id=h-2/e-0").hexdigest()[:16]
    where = {"cluster": "c-1", "engine_id": "h-2/e-0", "host": "h-2", "model": "llama", "placement_group": "h-2/e-0"}
    where |= {"model_version": "v1"}
    assert told == [
        Alert(
            fingerprint=fingerprint,
            transition="opened",
            number=1,
            rule="engine_slow",
            severity="warning",
            summary="engine_slow of h-2unknownh-2/e-0llama: 1 us",
            advice="look at engine_slow",
            labels=where,
            opened_ms=at(2),
            since_ms=at(1),
            at_ms=at(2),
            value=1.0,
            baseline=0.5,
            low=0.0,
            high=0.8,
            unit="us",
            count=40,
            evidence={"requests": [{"request_id": "r-1"}]},
        )
    ]
    assert told[0].transition_id == f"{fingerprint}-{at(2)}-1"


def test_a_finding_told_again_and_again_is_told_once() -> None:
    """Figures that move change nothing a person cares about."""
    scene = Scene()

    for _ in range(30):
        scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

    assert short(scene.told) == [("opened", "engine_kv", "h-2/e-0")]


def test_what_a_look_saw_is_one_alert_with_what_is_judged_later() -> None:
    """It opens at the end of the window that was looked at; time and everything else goes on with windows judged."""
    scene = Scene()
    scene.pass_windows(1)
    now_ms, ahead = scene.life.now_ms, finding("engine_kv", scene.window + 1, engine_id="h-1/e-0")

    opened = scene.life.early([ahead], at(scene.window + 1))
    again = scene.life.early([ahead], at(scene.window + 1))
    judged = [*scene.pass_windows(1), *scene.see(scene.fire("engine_kv", engine_id="h-1/e-0")), *scene.pass_windows(6)]

    assert [(one.transition, one.at_ms, one.labels["host"]) for one in opened] == [("opened", ahead.end_ms, "h-1")]
    assert (again, judged) == ([], [])
    assert (now_ms, [one.fingerprint for one in scene.life.store.open()]) == (at(2), [opened[0].fingerprint])


def test_it_resolves_when_nothing_came_back_for_the_hold() -> None:
    """One window before the hold it is open; ``resolved_ms`` is when it was over."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"))

    assert scene.pass_windows(HOLD - 1) == []
    told = scene.see()

    assert [(a.transition, a.number, a.resolved_ms, a.at_ms) for a in told] == [("resolved", 2, at(3), at(3 + HOLD))]


def test_what_comes_within_the_hold_goes_on_as_if_nothing_was() -> None:
    """No transition for a pause shorter than the hold."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"))
    scene.pass_windows(HOLD - 2)

    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    for _ in range(HOLD + 2):
        scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

    assert short(scene.told) == [("opened", "engine_kv", "h-2/e-0")]


def test_what_comes_back_soon_after_the_resolve_takes_the_alert_up_again_and_is_held_longer() -> None:
    """Flapping makes updates of one alert, never a second one; each return doubles the hold."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"))
    scene.pass_windows(HOLD + 10)

    back = scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"))
    quiet = scene.pass_windows(2 * HOLD - 1)
    over = scene.see()

    assert [(a.transition, a.number, a.note, a.resolved_ms) for a in back] == [("updated", 3, "came back once", None)]
    assert quiet == []
    assert [(a.transition, a.number) for a in over] == [("resolved", 4)]
    assert len({(a.fingerprint, a.opened_ms) for a in scene.told}) == 1


def test_a_symptom_of_what_is_over_belongs_to_the_cause_that_is_open() -> None:
    """Where none is open it takes its old alert up again."""
    for other in (True, False):
        scene = Scene()
        scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"), scene.fire("model_slow", model="llama"))
        scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"), scene.clear("model_slow", model="llama"))
        scene.pass_windows(HOLD + 5)
        if other:
            scene.see(scene.fire("engine_errors", engine_id="h-3/e-0"))

        scene.see(scene.fire("model_slow", model="llama"))

        expected = ["engine_errors"] if other else ["engine_kv"]
        assert [alert.rule for alert in scene.open()] == expected


def test_what_comes_back_long_after_the_resolve_is_a_new_alert_of_the_same_fingerprint() -> None:
    """Its number begins anew, its id differs by when it was opened."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"))
    scene.pass_windows(HOLD + 62)

    again = scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

    assert [(a.transition, a.number) for a in again] == [("opened", 1)]
    assert again[0].fingerprint == scene.told[0].fingerprint
    assert again[0].transition_id != scene.told[0].transition_id


def test_it_is_told_again_every_renotify_interval() -> None:
    """The interval of the headline's rule, counted from the last record."""
    often = tuple(replace(rule, renotify_ms=5 * WINDOW) for rule in RULES)
    scene = Scene(ruleset=RuleSet(often))

    for _ in range(12):
        scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

    assert [a.at_ms for a in scene.told] == [at(2), at(7), at(12)]


def test_new_members_are_told_at_most_once_a_minute() -> None:
    """They gather; a headline is told at once."""
    scene = Scene()
    kv = scene.fire("engine_kv", engine_id="h-2/e-0")
    scene.see(kv)
    scene.see(scene.fire("model_slow", model="llama"))

    told = scene.pass_windows(6)

    assert [(a.transition, a.at_ms) for a in told] == [("updated", at(8))]
    assert told[0].members == (
        Member(
            "model_slow",
            "warning",
            {"model": "llama"},
            at(2),
            None,
            1.0,
            "model_slow of unknownunknownunknownllama: 1 us",
        ),
    )


def test_a_worse_severity_is_told_at_once_and_stays() -> None:
    """A burning budget makes a warning critical; when the burn is over the alert has been critical."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    worse = scene.see(scene.fire("budget_burns", tenant="t-llama", model="llama"))
    scene.see(scene.clear("budget_burns", tenant="t-llama", model="llama"))
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"))
    over = scene.pass_windows(HOLD + 1)

    assert [(a.transition, a.severity, a.rule) for a in worse] == [("updated", "critical", "engine_kv")]
    assert [(a.transition, a.severity) for a in over] == [("resolved", "critical")]


def test_a_budget_that_still_burns_holds_no_alert_open_and_opens_none() -> None:
    """Burn rates outlive their cause by hours; one alone is an alert of its own."""
    scene = Scene()
    burns = {"tenant": "t-llama", "model": "llama"}
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"), scene.fire("budget_burns", **burns))
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"), scene.fire("budget_burns", **burns))

    for _ in range(HOLD + 80):
        scene.see(scene.fire("budget_burns", **burns))
    alone = Scene()
    alone.see(alone.fire("budget_burns", **burns))

    assert [a.transition for a in scene.told] == ["opened", "resolved"]
    assert short(alone.told) == [("opened", "budget_burns", "llama")]


@pytest.mark.parametrize("later", [1, 3, 18, 40])
@pytest.mark.parametrize("still", [False, True], ids=["over by then", "burning still"])
def test_a_budget_that_opened_an_alert_and_burns_again_opens_another(later: int, still: bool) -> None:
    """Its cause came after it, and both are over: a second alert under the same fingerprint."""
    scene = Scene()
    burns = {"tenant": "t-llama", "model": "llama"}
    scene.see(scene.fire("budget_burns", **burns))
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"), scene.fire("budget_burns", **burns))
    over = () if still else (scene.clear("budget_burns", **burns),)
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"), *over)
    for _ in range(HOLD + later):
        scene.see(*([scene.fire("budget_burns", **burns)] if still else []))
    scene.see(scene.clear("budget_burns", **burns))
    since_ms = at(scene.window - 1)

    for _ in range(HOLD + 80):
        scene.see(replace(scene.fire("budget_burns", **burns), since_ms=since_ms))

    assert [alert.transition for alert in scene.told] == ["opened", "updated", "resolved", "opened"]
    assert [alert.rule for alert in scene.told[1:]] == ["engine_kv", "engine_kv", "budget_burns"]
    assert scene.told[0].fingerprint == scene.told[3].fingerprint
    assert scene.told[0].transition_id != scene.told[3].transition_id


@pytest.mark.parametrize("later", [1, 3, 18, 40, 70])
def test_a_budget_that_burns_again_after_the_resolve_is_an_alert_of_its_own(later: int) -> None:
    """However soon: what it burned with before is over."""
    scene = Scene()
    burns = {"tenant": "t-llama", "model": "llama"}
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"), scene.fire("budget_burns", **burns))
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"), scene.clear("budget_burns", **burns))
    scene.pass_windows(HOLD + later)
    since_ms = at(scene.window - 1)

    for _ in range(HOLD + 80):
        scene.see(replace(scene.fire("budget_burns", **burns), since_ms=since_ms))

    assert short(scene.told) == [
        ("opened", "engine_kv", "h-2/e-0"),
        ("resolved", "engine_kv", "h-2/e-0"),
        ("opened", "budget_burns", "llama"),
    ]
    scene.see(scene.clear("budget_burns", **burns))
    scene.pass_windows(HOLD)
    assert short(scene.told)[3:] == [("resolved", "budget_burns", "llama")]


def test_a_late_consequence_opens_nothing_unless_it_outlives_its_cause() -> None:
    """It began while the alert went on; ten minutes after the resolve it is a trouble of its own."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    scene.see(scene.clear("engine_kv", engine_id="h-2/e-0"))
    scene.pass_windows(HOLD)
    since = 2

    for _ in range(60):
        scene.see(replace(scene.fire("model_slow", model="llama"), since_ms=at(since)))
    silent = short(scene.told)
    scene.see(replace(scene.fire("model_slow", model="llama"), since_ms=at(since)))

    assert silent == [("opened", "engine_kv", "h-2/e-0"), ("resolved", "engine_kv", "h-2/e-0")]
    assert short(scene.told)[2:] == [("opened", "model_slow", "llama")]


def test_a_finding_that_nobody_tells_any_more_is_over() -> None:
    """A series that was forgotten leaves no alert open for ever."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

    told = scene.pass_windows(63 + HOLD)

    assert [a.transition for a in told] == ["resolved"]


def test_what_follows_from_a_lost_gpu_causes_no_update() -> None:
    """Its silence and its engine's latency are in the next record, which comes when it is found."""
    scene = Scene()
    scene.gpu_event("gpu_lost", "g-20")
    for _ in range(20):
        scene.see(scene.fire("gpu_silent", gpu_uuid="g-20"), scene.fire("engine_slow", engine_id="h-2/e-0"))
    quiet = len(scene.told)
    scene.gpu_event("gpu_found", "g-20", severity="info")
    scene.see(scene.clear("gpu_silent", gpu_uuid="g-20"), scene.clear("engine_slow", engine_id="h-2/e-0"))
    scene.pass_windows(HOLD + 1)

    assert quiet == 1
    assert [(a.transition, a.number) for a in scene.told] == [("opened", 1), ("resolved", 2)]
    assert [member.rule for member in scene.told[-1].members] == ["gpu_silent", "engine_slow"]


def test_a_gpu_event_is_told_at_once_with_its_own_time() -> None:
    """Before any window of it is judged."""
    scene = Scene()

    told = scene.gpu_event("xid", "g-20", at(5) + 123, code=79, action="reboot_node", message="fallen off the bus")

    assert [(a.rule, a.severity, a.opened_ms, a.since_ms, a.at_ms, a.count) for a in told] == [
        ("gpu_xid", "critical", at(5) + 123, at(5) + 123, at(5) + 123, 1)
    ]
    assert told[0].summary == "GPU g-20 on h-2: XID 79 (fallen off the bus)"
    assert told[0].advice == "Drain the node and reboot it."
    assert (told[0].labels["code"], told[0].labels["model"]) == ("79", "llama")


def test_an_event_that_joins_is_told_at_once() -> None:
    """The XID comes first and the loss a moment later: whoever drains engines finds it as the headline, and at once."""
    scene = Scene()

    scene.gpu_event("xid", "g-20", at(5), code=79)
    lost = scene.gpu_event("gpu_lost", "g-20", at(5) + 2)
    again = scene.gpu_event("xid", "g-20", at(5) + 3, code=119)

    assert [(a.transition, a.rule, a.at_ms) for a in (*lost, *again)] == [
        ("updated", "gpu_lost", at(5) + 2),
        ("updated", "gpu_lost", at(5) + 3),
    ]
    assert [member.labels["code"] for member in again[0].members] == ["79", "119"]


def test_an_xid_is_over_when_it_has_not_come_again_for_a_while() -> None:
    """Each repetition counts and moves the end."""
    scene = Scene()
    scene.gpu_event("xid", "g-20", at(1) + 500, code=31, severity="warning")
    scene.pass_windows(20)
    scene.gpu_event("xid", "g-20", at(21) + 500, code=31, severity="warning")

    open_ = scene.pass_windows(30 + HOLD)
    over = scene.see()

    assert open_ == []
    assert [(a.transition, a.count, a.resolved_ms) for a in over] == [("resolved", 2, at(51) + 500)]


@pytest.mark.parametrize(
    ("began", "ended"),
    [
        (("gpu_lost", {}), ("gpu_found", {"severity": "info"})),
        (("gpu_unresponsive", {}), ("gpu_found", {"severity": "info"})),
        (("clocks", {"code": 64}), ("clocks", {"code": 64, "severity": "info"})),
        (("recovery", {"code": 2}), ("recovery", {"code": 0, "severity": "info"})),
    ],
    ids=["lost until found", "unresponsive until found", "throttled until over", "recovery until done"],
)
def test_what_lasts_ends_with_its_own_event(
    began: tuple[str, dict[str, object]], ended: tuple[str, dict[str, object]]
) -> None:
    """It stays open as long as nobody says that it is over."""
    scene = Scene()
    scene.gpu_event(began[0], "g-20", **began[1])  # type: ignore[arg-type]
    before = scene.pass_windows(50)
    scene.gpu_event(ended[0], "g-20", **ended[1])  # type: ignore[arg-type]

    over = scene.pass_windows(HOLD + 1)

    assert before == []
    assert [(a.transition, a.resolved_ms) for a in over] == [("resolved", at(51) + 1_000)]


def test_the_end_of_one_throttle_reason_leaves_the_other() -> None:
    """Codes are troubles of their own."""
    scene = Scene()
    scene.gpu_event("clocks", "g-20", code=64)
    scene.gpu_event("clocks", "g-20", code=128)
    scene.gpu_event("clocks", "g-20", code=64, severity="info")

    assert scene.pass_windows(HOLD + 2) == []
    assert [a.transition for a in scene.open()] == ["updated"]


def test_a_gpu_that_never_comes_back_is_no_alert_for_ever() -> None:
    """After a day it is taken for gone."""
    scene = Scene(policy=AlertPolicy(), ruleset=RuleSet(RULES, gpu_events=(_handling(lasts_ms=10 * WINDOW),)))
    scene.gpu_event("gpu_lost", "g-20", at(1))

    assert [a.transition for a in scene.pass_windows(11 + HOLD)] == ["resolved"]


def _handling(severity: str | None = "critical", lasts_ms: int = 86_400_000) -> GpuEvent:
    return GpuEvent(("gpu_lost", "xid"), (), (), severity, "call somebody", ("gpu_found",), lasts_ms)


def test_rules_decide_how_bad_an_event_is() -> None:
    """Their severity and advice stand in place of the event's own; none means no alert."""
    mild = Scene(ruleset=RuleSet(RULES, gpu_events=(_handling("warning"),)))
    off = Scene(ruleset=RuleSet(RULES, gpu_events=(_handling(None),)))

    told = mild.gpu_event("xid", "g-20", code=79)

    assert [(a.severity, a.advice) for a in told] == [("warning", "call somebody")]
    assert off.gpu_event("xid", "g-20", code=79) == []


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_what_the_rules_say_of_an_event_is_said_whatever_it_came_with(severity: str) -> None:
    """Severity info in the rules is an alert of that severity, with their advice; an event that ends one opens none."""
    scene = Scene(ruleset=RuleSet(RULES, gpu_events=(replace(_handling("info"), kinds=("xid", "clocks")),)))

    told = scene.gpu_event("xid", "g-20", code=31, severity=severity)

    assert [(a.transition, a.severity, a.advice) for a in told] == [("opened", "info", "call somebody")]
    assert scene.gpu_event("clocks", "g-30", code=4, severity="info") == []


def test_a_restart_of_the_driver_informs() -> None:
    """As the shipped rules say of it: with what to look at, and over after ten minutes."""
    scene = Scene(ruleset=load_set())

    told = scene.gpu_event("driver_restart", "g-20", severity="warning")

    assert [(a.rule, a.severity, a.advice) for a in told] == [
        ("gpu_driver_restart", "info", "expected after an update; else see the host's kernel log")
    ]
    assert [a.transition for a in scene.pass_windows(60 + HOLD + 1)] == ["resolved"]


def test_events_of_no_weight_open_nothing() -> None:
    """Severity info needs nobody where the rules say nothing of the event."""
    scene = Scene()

    assert scene.gpu_event("ecc", "g-20", severity="info") == []
    assert scene.gpu_event("clocks", "g-20", severity="info", code=4) == []
    assert scene.gpu_event("gpu_found", "g-20", severity="info") == []


def test_events_that_come_late_do_not_open_what_is_over() -> None:
    """Lost before it was found, and a moment that is long gone."""
    scene = Scene()
    scene.pass_windows(60)
    scene.gpu_event("gpu_found", "g-20", at(50), severity="info")

    assert scene.gpu_event("gpu_lost", "g-20", at(49)) == []
    assert scene.gpu_event("xid", "g-20", at(1), code=79) == []
    assert short(scene.gpu_event("gpu_lost", "g-20", at(51))) == [("opened", "gpu_lost", "g-20")]


def test_an_engine_that_goes_away_is_an_alert_until_it_is_found() -> None:
    """Its latency and errors are muted by it."""
    scene = Scene()
    scene.engine_event("lost", "h-2/e-0")
    for _ in range(10):
        scene.see(scene.fire("engine_errors", engine_id="h-2/e-0"))
    scene.engine_event("found", "h-2/e-0")
    scene.see(scene.clear("engine_errors", engine_id="h-2/e-0"))
    scene.pass_windows(HOLD + 1)

    assert [(a.transition, a.rule) for a in scene.told] == [("opened", "engine_lost"), ("resolved", "engine_lost")]


def test_an_engine_that_was_found_meanwhile_is_not_lost() -> None:
    """Events out of order."""
    scene = Scene()
    scene.engine_event("found", "h-2/e-0", at(5))

    assert scene.engine_event("lost", "h-2/e-0", at(4)) == []


def test_a_deployment_before_it_is_evidence() -> None:
    """Of the same model, within the hour: newest first, one entry for a version on several hosts."""
    scene = Scene()
    scene.engine_event("changed", "h-1/e-0", at(2), model="llama", model_version="v2", message="v1 -> v2")
    scene.engine_event("changed", "h-2/e-0", at(3), model="llama", model_version="v2", message="v1 -> v2")
    scene.engine_event("changed", "h-1/e-1", at(3), model="qwen", model_version="v9", message="v8 -> v9")
    scene.pass_windows(5)

    told = scene.see(scene.fire("model_slow", model="llama"))

    assert told[0].evidence == {
        "deployment": [
            {
                "at_ms": at(2),
                "kind": "changed",
                "model": "llama",
                "version": "v2",
                "engine_id": "h-1/e-0",
                "host": "h-1",
                "hosts": ["h-1", "h-2"],
                "message": "v1 -> v2",
            }
        ]
    }


def test_a_deployment_of_hours_ago_is_none() -> None:
    """An hour is the limit."""
    scene = Scene()
    scene.engine_event("marked", "h-2/e-0", at(1), model="llama", model_version="v2")
    scene.pass_windows(361)

    assert scene.see(scene.fire("model_slow", model="llama"))[0].evidence == {}


def _mute(scene: Scene, until: int, **labels: str) -> list[Alert]:
    told = scene.life.command(Command("mute", "m-1", labels, 0, at(until), "maintenance", "me"))
    scene.told += told
    return told


def test_a_mute_is_told_when_it_begins_and_when_it_ends() -> None:
    """The alert lives on all the same; nobody is woken before the end, and somebody is at the end."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

    began = _mute(scene, 9, host="h-2")
    for _ in range(10):
        scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

    assert [(a.transition, a.muted_until_ms) for a in began] == [("updated", at(9))]
    assert [(a.transition, a.muted_until_ms, a.at_ms) for a in scene.told[2:]] == [("updated", None, at(9))]


def test_what_opens_under_a_mute_is_muted_from_the_first_record() -> None:
    """By label, by rule, or everything."""
    for labels in ({"host": "h-2"}, {"rule": "engine_kv"}, {"severity": "warning"}, {}):
        scene = Scene()
        _mute(scene, 9, **labels)

        told = scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

        assert [(a.transition, a.muted_until_ms) for a in told] == [("opened", at(9))]


def test_a_mute_of_a_host_hides_no_budget_that_burns_with_it() -> None:
    """It is as severe as anything that goes on and is about everybody's model; muted again once it is over."""
    scene = Scene()
    _mute(scene, 900, host="h-2")
    lost, burns = scene.fire("engine_silent", engine_id="h-2/e-0"), {"tenant": "t-llama", "model": "llama"}
    scene.see(lost)
    scene.see(lost, scene.fire("budget_burns", **burns))
    scene.see(lost, scene.clear("budget_burns", **burns))

    assert [(a.rule, a.severity, a.muted_until_ms) for a in scene.told] == [
        ("engine_silent", "critical", at(900)),
        ("engine_silent", "critical", None),
        ("engine_silent", "critical", at(900)),
    ]


@pytest.mark.parametrize(
    ("labels", "until"),
    [
        pytest.param({"host": "h-2"}, 900, id="milder members may be elsewhere"),
        pytest.param({"rule": "engine_silent"}, 900, id="by rule"),
        pytest.param({"severity": "critical"}, 900, id="by severity"),
        pytest.param({"model": "qwen"}, None, id="another"),
    ],
)
def test_milder_members_keep_a_mute_in_force(labels: dict[str, str], until: int | None) -> None:
    """Only what is as severe as the worst has to be muted, too."""
    scene = Scene()
    _mute(scene, 900, **labels)

    told = scene.see(scene.fire("engine_silent", engine_id="h-2/e-0"), scene.fire("model_slow", model="llama"))

    assert [(len(a.members), a.muted_until_ms) for a in told] == [(1, None if until is None else at(until))]


def test_an_alert_stays_muted_when_its_cause_ends_before_a_milder_member() -> None:
    """It is said to be critical, and nothing that goes on is."""
    scene = Scene()
    _mute(scene, 900, host="h-2")
    lost, slow = scene.fire("engine_silent", engine_id="h-2/e-0"), scene.fire("model_slow", model="llama")
    scene.see(lost, slow)
    scene.see(scene.clear("engine_silent", engine_id="h-2/e-0"), slow)
    scene.see(slow)

    assert [(a.transition, a.severity, a.muted_until_ms) for a in scene.told] == [("opened", "critical", at(900))]


def test_a_mute_by_fingerprint_is_of_the_whole_alert() -> None:
    """The button of the page: whatever is in it."""
    scene = Scene()
    burns = {"tenant": "t-llama", "model": "llama"}
    opened = scene.see(scene.fire("engine_silent", engine_id="h-2/e-0"), scene.fire("budget_burns", **burns))

    told = _mute(scene, 900, fingerprint=opened[0].fingerprint)

    assert [(len(a.members), a.muted_until_ms) for a in told] == [(1, at(900))]


def test_two_mutes_hold_until_the_first_of_them_ends() -> None:
    """Of members that are alike severe, each muted by its own."""
    scene = Scene()
    burns = {"tenant": "t-llama", "model": "llama"}
    scene.life.command(Command("mute", "m-2", {"tenant": "t-llama"}, 0, at(500), "known", "me"))
    _mute(scene, 900, host="h-2")

    told = scene.see(scene.fire("engine_silent", engine_id="h-2/e-0"), scene.fire("budget_burns", **burns))

    assert [(len(a.members), a.muted_until_ms) for a in told] == [(1, at(500))]


def test_other_alerts_are_not_muted() -> None:
    """All labels must agree."""
    scene = Scene()
    _mute(scene, 9, host="h-2", rule="engine_errors")

    told = scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

    assert [a.muted_until_ms for a in told] == [None]


def test_an_unmute_ends_it_before_its_time() -> None:
    """By the id of the mute."""
    scene = Scene()
    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    _mute(scene, 900)

    told = scene.life.command(Command("unmute", "m-1"))

    assert [(a.transition, a.muted_until_ms) for a in told] == [("updated", None)]


def test_what_people_ran_silences_nothing() -> None:
    """It stands on the topic for the audit alone."""
    scene = Scene()
    before = scene.life.silences.dump()

    assert scene.life.command(Command("ran", "r-1", reason="rerate", by="me"), at(4)) == []
    assert scene.life.silences.dump() == before


def test_a_silence_of_the_rules_file_holds_between_its_times() -> None:
    """Planned maintenance begins when it was planned for."""
    planned = Command("mute", "planned", {"host": "h-2"}, at(4), at(6))
    scene = Scene(ruleset=replace(RULESET, silences=(planned,)))

    for _ in range(7):
        scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))

    assert [(a.at_ms, a.muted_until_ms) for a in scene.told] == [(at(2), None), (at(4), at(6)), (at(6), None)]


@pytest.mark.parametrize(("begins_ms", "until"), [(1_000, 900), (1_001, None)], ids=["begun", "yet to begin"])
def test_an_event_is_silenced_by_what_is_in_force_at_its_own_time(begins_ms: int, until: int | None) -> None:
    """Windows are some seconds behind an event, minutes in a backlog; none of those judged next wakes anybody."""
    planned = Command("mute", "planned", {"host": "h-2"}, at(3) + begins_ms, at(900))
    scene = Scene(ruleset=replace(RULESET, silences=(planned,)))

    scene.gpu_event("gpu_lost", "g-20", at(3) + 1_000)
    scene.pass_windows(2)

    expected = None if until is None else at(until)
    assert [(a.transition, a.muted_until_ms) for a in scene.told] == [("opened", expected)]


def test_findings_of_rules_that_are_gone_are_counted() -> None:
    """After a change of the rules the state may hold more than the rules know."""
    scene = Scene()

    told = scene.see(scene.fire("gone", host="h-2"))

    assert told == []
    assert scene.life.unknown == 1


def test_what_a_rule_that_is_gone_found_is_over_with_the_next_window() -> None:
    """The detector says so once; the alert is resolved as any other."""
    before = Scene()
    before.see(before.fire("engine_kv", engine_id="h-2/e-0"))
    scene = Scene(ruleset=RuleSet(tuple(rule for rule in RULES if rule.name != "engine_kv")))
    scene.life.load(before.life.dump())
    scene.life.topology.load(before.life.topology.dump())
    scene.window = before.window

    scene.see(finding("engine_kv", scene.window - 1, firing=False, engine_id="h-2/e-0"))
    scene.pass_windows(HOLD)

    assert [(a.transition, a.rule, a.resolved_ms, a.at_ms) for a in scene.told] == [
        ("resolved", "engine_kv", at(2), at(2 + HOLD))
    ]


def test_causes_beyond_the_limit_are_counted_and_not_told() -> None:
    """Room is bounded; what is open stays."""
    scene = Scene(policy=AlertPolicy(open_max=1))

    scene.see(scene.fire("engine_kv", engine_id="h-2/e-0"))
    scene.see(scene.fire("engine_kv", engine_id="h-1/e-1"))

    assert short(scene.told) == [("opened", "engine_kv", "h-2/e-0")]
    assert scene.life.store.refused == 1


def test_members_that_are_not_told_are_counted() -> None:
    """A limit that is reached is never silent."""
    scene = Scene(policy=AlertPolicy(members_max=1))

    scene.see(*(scene.fire("gpu_throttled", gpu_uuid=gpu) for gpu in ("g-10", "g-11", "g-12", "g-13")))

    assert [(len(alert.members), alert.note) for alert in scene.told] == [(1, "2 more with it")]


def test_members_told_and_remembered_are_bounded() -> None:
    """The likeliest causes stand first; what is over is forgotten first."""
    scene = Scene(policy=AlertPolicy(members_max=1, parts_max=2))
    scene.see(
        scene.fire("engine_slow", engine_id="h-2/e-0"),
        scene.fire("engine_kv", engine_id="h-2/e-0"),
        scene.fire("model_slow", model="llama"),
    )

    incident = scene.life.store.open()[0]

    assert [member.rule for member in scene.told[0].members] == ["engine_slow"]
    assert sorted(part.signal.rule for part in incident.parts.values()) == ["engine_kv", "engine_slow"]


def test_a_silence_of_the_symptom_is_none_of_the_cause() -> None:
    """A lost GPU takes the headline of a muted alert: somebody is woken, at once."""
    scene = Scene()
    scene.life.command(Command("mute", "m", {"rule": "engine_kv"}, at(0), at(1_000)), at(1))

    scene.see(scene.fire("engine_kv", engine_id="h-1/e-0"))
    scene.gpu_event("gpu_lost", "g-10")

    assert [(alert.rule, alert.muted_until_ms) for alert in scene.told] == [
        ("engine_kv", at(1_000)),
        ("gpu_lost", None),
    ]


def test_a_mute_that_begins_far_ahead_is_refused() -> None:
    """Seen from when it was told, or from the windows judged."""
    scene = Scene()
    far = at(0) + 365 * 86_400_000

    with pytest.raises(RejectedError, match="within 90 days"):
        scene.life.command(Command("mute", "m", {}, far, far + 1), at(1))
    assert scene.life.silences.any is False
    scene.life.command(Command("mute", "m", {}, far, far + 1), far - 1_000)
    assert scene.life.silences.any is True


def test_mutes_that_are_over_make_room() -> None:
    """Although no window was judged since."""
    scene = Scene(AlertPolicy(silences_max=1))
    scene.life.command(Command("mute", "a", {}, at(0), at(1)), at(0))
    scene.life.command(Command("mute", "b", {}, at(0), at(9)), at(0))

    assert [one["id"] for one in scene.life.silences.dump()["mutes"]] == ["b"]


def test_when_a_gpu_or_engine_was_found_is_remembered_of_those_that_are_known() -> None:
    """As many as the topology has room for, whoever tells of more."""
    scene = Scene(AlertPolicy(topology_max=8))
    for number in range(50):
        row = {"at_ms": at(1), "host": "h", "severity": "info"}
        scene.life.gpu_events([{**row, "gpu_uuid": f"x-{number}", "kind": "gpu_found"}])
        scene.life.engine_events([{**row, "engine_id": f"x-{number}", "kind": "found"}])
    known = len({*scene.life.topology.gpus, *scene.life.topology.engines} & {f"x-{n}" for n in range(50)})

    assert len(scene.life.dump()["found_ms"]) == known < 16
