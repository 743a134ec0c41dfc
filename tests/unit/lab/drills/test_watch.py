"""Signs: a text names the cause or links to its section; logs are read from where they were."""

from __future__ import annotations

import io
import time
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path
from typing import Any, cast

import pytest

from lab.drills import watch
from lab.drills.stand import Stand, get
from lab.drills.watch import Logs, Watch, names, other_causes
from runtime.runbook import Cause


class Folder:
    """In a stand's place: where logs are."""

    prometheus = None
    struck_s: float | None = None

    def __init__(self, logs: Path) -> None:
        self.logs = logs


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("ClickHouse unavailable: no route", True),
        ("clickhouse unavailable", True),
        ("read docs/how-to/running.md#clickhouse-unavailable", True),
        ("ClickHouse rejected the login", False),
        ("ClickHouse does not answer", False),
    ],
)
def test_a_cause_is_named_by_its_words_or_its_section(text: str, is_named: bool) -> None:
    """Other words for the same are no name."""
    assert names(Cause.CLICKHOUSE, text) == is_named


def test_other_causes_are_those_that_are_linked_to() -> None:
    """The one that is waited for is none of them."""
    text = "a.md#kafka-unavailable a.md#clickhouse-unavailable"

    assert other_causes(Cause.KAFKA, text) == {Cause.CLICKHOUSE}


def test_only_whole_lines_since_the_beginning_are_read(tmp_path: Path) -> None:
    """What a process is writing comes with the next look, and what stood there is over."""
    log = tmp_path / "sink.log"
    log.write_text("before\n")
    look = Logs(cast(Any, Folder(tmp_path)))

    with log.open("a") as more:
        more.write("one\ntw")
    first = list(look())
    with log.open("a") as more:
        more.write("o\n")
    (tmp_path / "pasted.log").write_text("new\n")

    assert first == ["sink: one"]
    assert list(look()) == ["pasted: new", "sink: two"]


@pytest.mark.parametrize(
    ("raised", "answer"),
    [
        (urllib.error.HTTPError("http://a/readyz", 503, "", Message(), io.BytesIO(b"Kafka away")), b"Kafka away"),
        (ConnectionRefusedError(), None),
    ],
)
def test_what_a_process_that_is_not_ready_answers_is_read(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, answer: bytes | None
) -> None:
    """503 has the reason; a process that is gone has none."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise raised

    monkeypatch.setattr(urllib.request, "urlopen", refuse)

    assert get(1, "/readyz") == answer


def test_the_first_sign_of_each_channel_is_kept(tmp_path: Path) -> None:
    """Beside it what else a channel named; a channel that nobody waits for says nothing."""
    watch = Watch(cast(Any, Folder(tmp_path)), {"doctor": Cause.KAFKA, "alert": Cause.PROCESS})

    watch._take("page", "Kafka unavailable")
    watch._take("doctor", "wrong a.md#clickhouse-unavailable")
    watch._take("doctor", "Kafka unavailable: 1")
    watch._take("doctor", "Kafka unavailable: 2")

    assert {name: sign.text for name, sign in watch.seen.items()} == {"doctor": "Kafka unavailable: 1"}
    assert {name: list(found) for name, found in watch.others.items()} == {"doctor": [Cause.CLICKHOUSE]}
    assert watch.others["doctor"][Cause.CLICKHOUSE].text == "wrong a.md#clickhouse-unavailable"
    assert (watch.has_all(), watch.firing_s) == (False, None)

    watch._take("alert", "pending A: process not running")
    pending_s = watch.firing_s
    watch._take("alert", "firing A: process not running")

    assert (watch.has_all(), pending_s) == (True, None)
    assert watch.firing_s is not None
    for state, others in (("pending", {Cause.CLICKHOUSE}), ("firing", {Cause.CLICKHOUSE, Cause.LAG})):
        watch._take("alert", f"{state} B: a.md#{Cause.LAG.anchor}")
        assert {cause for found in watch.others.values() for cause in found} == others


def test_where_nothing_is_wrong_whatever_is_named_is_kept(tmp_path: Path) -> None:
    """Of every channel; an alert that is pending has notified nobody."""
    watch = Watch(cast(Any, Folder(tmp_path)), {})

    watch._take("alert", "pending A: process not running")
    watch._take("page", "{'topic': 'window.finals', 'wrong': 'Consumer lag grows'}")

    assert {name: list(found) for name, found in watch.others.items()} == {"page": [Cause.LAG]}
    assert (watch.seen, watch.has_all()) == ({}, True)


def test_only_a_channel_whose_looks_are_completed_was_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails, at once or after others that did not, says nothing of what is there."""
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.0)
    looking = Watch(cast(Any, Folder(tmp_path)), {})
    looks = iter([["one"], ["two"]])

    def fails() -> list[str]:
        raise ValueError("no answer")

    def last() -> list[str]:
        looking._over.set()
        return ["nothing"]

    with pytest.raises(ValueError, match="no answer"):
        looking._look("doctor", fails)
    with pytest.raises(StopIteration):
        looking._look("readyz", lambda: next(looks))
    looking._look("page", last)

    assert looking.looked == {"page"}


@pytest.mark.parametrize("answer", [None, b"Service Unavailable", b'{"status":"error"}'])
def test_a_prometheus_that_is_silent_is_no_look_at_alerts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | None
) -> None:
    """That no alert came is not known. One that answers again is looked at."""
    stand = Stand(tmp_path, cast(Any, None), cast(Any, None), 1, prometheus=9090)
    answers = list[bytes | None]()
    monkeypatch.setattr(watch, "get", lambda *_of: answers.pop(0))
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.0)

    def looked(*to_come: bytes | None) -> set[str]:
        answers[:] = to_come
        looking = Watch(stand, {})

        def look() -> list[str]:
            if len(answers) == 1:
                looking._over.set()
            return [alert.text for alert in watch.alerts(stand)]

        looking._look("alert", look)
        return looking.looked

    quiet = b'{"data":{"alerts":[]}}'
    assert [looked(quiet, answer), looked(answer, quiet)] == [set(), {"alert"}]
    answers.append(answer)
    assert watch.alert_texts(stand) == []


def test_a_prometheus_that_is_silent_when_a_drill_begins_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of its alerts went on already, nobody knows then."""
    stand = Stand(tmp_path, cast(Any, None), cast(Any, None), 1, prometheus=9090)
    stand.logs.mkdir()
    monkeypatch.setattr(watch, "get", lambda *_of: None)
    monkeypatch.setattr(Watch, "_page", lambda _self: iter(()))
    monkeypatch.setattr(watch, "findings", lambda _stand: [])
    looking = Watch(stand, {})

    looking.begin()
    looking.end()

    assert {thread.name for thread in looking._threads} == {"watch-log", "watch-readyz", "watch-doctor", "watch-page"}


def test_a_sign_names_what_the_fault_is_about(tmp_path: Path) -> None:
    """The lag of another topic is none of this one's."""
    watch = Watch(cast(Any, Folder(tmp_path)), {"page": Cause.LAG}, "llm.requests")

    watch._take("page", "{'topic': 'window.finals', 'wrong': 'Consumer lag grows'}")
    assert not watch.seen
    watch._take("page", "{'topic': 'llm.requests', 'wrong': 'Consumer lag grows'}")
    assert watch.has_all()


def test_an_alert_that_is_not_there_cannot_be_refused(tmp_path: Path) -> None:
    """The fault of a webhook begins with the first alert that it refuses, also where it is seen before that is kept."""
    stand = Folder(tmp_path)
    watch = Watch(cast(Any, stand), {"alert": Cause.DELIVERY})
    watch._begun_s = time.monotonic() - 70.0
    watch._take("alert", "firing A: alerts not delivered")
    stand.struck_s = watch._begun_s + 69.0

    watch.end()

    assert 1.0 <= watch.seen["alert"].after_s <= time.monotonic() - stand.struck_s
    assert watch.firing_s == watch.seen["alert"].after_s


def test_a_process_that_is_started_meanwhile_is_looked_at_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The drill starts it in another thread than that which looks."""
    stand = Stand(tmp_path, cast(Any, None), cast(Any, None), 1, ports={"sink": 1, "deliver": 2})

    def answer(port: int, _path: str) -> bytes:
        stand.ports["agent"] = 3
        return b"%d" % port

    monkeypatch.setattr(watch, "get", answer)

    assert list(watch.verdicts(stand)) == ["sink: 1", "deliver: 2"]
    assert list(watch.verdicts(stand))[-1] == "agent: 3"


def test_a_sign_of_before_the_fault_took_effect_is_none(tmp_path: Path) -> None:
    """The next one is; without one the channel was silent."""
    stand = Folder(tmp_path)
    watch = Watch(cast(Any, stand), {"alert": Cause.DELIVERY, "page": Cause.DELIVERY, "log": Cause.DELIVERY})
    watch._begun_s = time.monotonic() - 20.0
    for channel in ("alert", "page"):
        watch._take(channel, "firing A: alerts not delivered, from before")
    watch._begun_s -= 50.0
    stand.struck_s = watch._begun_s + 60.0
    early = watch.has_all()
    for channel in ("page", "log"):
        watch._take(channel, "alerts not delivered, again")

    watch.end()

    assert (early, watch.has_all()) == (False, False)
    assert {name: sign.text for name, sign in watch.seen.items()} == dict.fromkeys(
        ("page", "log"), "alerts not delivered, again"
    )
    assert watch.firing_s is None
    assert 10.0 <= watch.seen["log"].after_s <= watch.lasted_s <= time.monotonic() - stand.struck_s


def test_what_an_earlier_fault_has_left_is_no_other_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was named before this one began."""
    named = [f"a.md#{Cause.REJECTED.anchor}"]
    monkeypatch.setattr(watch, "verdicts", lambda _stand: named)
    monkeypatch.setattr(watch, "findings", lambda _stand: [])
    looking = Watch(cast(Any, Folder(tmp_path)), {"doctor": Cause.KAFKA})
    monkeypatch.setattr(Watch, "_page", lambda _self: iter(()))
    looking.begin()
    looking.end()

    looking._take("doctor", f"a.md#{Cause.REJECTED.anchor} a.md#{Cause.LAG.anchor}")

    assert {name: list(found) for name, found in looking.others.items()} == {"doctor": [Cause.LAG]}


def test_the_alert_of_another_process_is_a_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rule fires for one that was gone before; that alone is none."""

    def down(process: str) -> watch.Alert:
        return watch.Alert("Down", frozenset({("instance", process)}), f"firing Down: process not running: {process}")

    found = [down("jobs")]
    monkeypatch.setattr(watch, "alerts", lambda _stand: iter(list(found)))
    for name in ("verdicts", "findings"):
        monkeypatch.setattr(watch, name, lambda _stand: [])
    monkeypatch.setattr(Watch, "_page", lambda _self: iter(()))
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.001)
    looking = Watch(cast(Any, Folder(tmp_path)), {"alert": Cause.PROCESS})
    looking.begin()
    time.sleep(0.05)
    before = looking.has_all()
    found.append(down("sink"))
    while not looking.has_all():
        time.sleep(0.001)
    looking.end()

    assert not before
    assert looking.seen["alert"].text == "firing Down: process not running: sink"


def test_causes_are_counted_on_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are present; a process that is gone counts none."""
    counted = 'fleetpulse_cause{cause="GPU not readable"} 1.0\nfleetpulse_cause{cause="Kafka slow"} 0.0\n'
    stand = Stand(tmp_path, cast(Any, None), cast(Any, None), 1, ports={"agent": 1, "sink": 2})

    def page(port: int, _path: str, _within_s: float) -> str:
        if port != 1:
            raise ConnectionRefusedError
        return counted

    monkeypatch.setattr("lab.drills.stand.page", page)

    assert list(watch.causes_counted(stand)) == ["GPU not readable"]
