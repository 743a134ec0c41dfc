"""What each kind of target is sent, whole, against the shapes their makers document."""

from __future__ import annotations

import json
import re
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from runtime.delivery_config import DeliveryConfig
from schemas.contract.alerts import Member, encode
from sinks.delivery.backlog import Delivery, Send
from sinks.delivery.request import SIGNATURE, sign, verify
from sinks.delivery.shapes import (
    ALERTMANAGER_LABELS,
    alertmanager_labels,
    label_name,
    renotify_request_of,
    request_of,
    slack_text,
)
from sinks.delivery.transition import transition_of
from tests.unit.sinks.delivery.delivery_cases import NOW_MS, an_alert, at, config, full_alert, record

NOW = "2027-01-15T08:00:00.000Z"
SINCE = "2027-01-15T07:58:30.000Z"
FACTS = (("value", "1.23457e+06 us"), ("expected", "800 us to 1200.5 us"), ("baseline", "1000 us"))
MEMBERS = "[warning] KV cache is full (engine_id=e1)\n[over] queue (model=m)"


def sending(alert: Any, **fields: Any) -> Send:
    return Send(Delivery(at(0, alert), 1, 0, 0, 0), **fields)


def body(kind: str, alert: Any, **fields: Any) -> Any:
    """What a target of this kind is sent for the alert."""
    return json.loads(request_of(config(kind), sending(alert, **fields), NOW_MS).body)


def test_alertmanager_gets_labels_annotations_and_a_time_to_live() -> None:
    """Every label a valid name, what is unknown left out, valid for ``valid_s``."""
    assert body("alertmanager", full_alert())[0] == {
        "labels": {
            "alertname": "ttft_high",
            "severity": "critical",
            "fleetpulse_fingerprint": "0123456789abcdef",
            "engine_id": "e1",
            "gpu_uuid": "GPU-1",
            "host": "h1",
            "model": "m",
            "exported_severity": "odd",
        },
        "annotations": {
            "summary": "TTFT 40 % above <baseline> & rising",
            "description": "since version 2. Look at engine e1",
            "runbook_url": "docs/how-to/running.md#alerts-about-the-fleet",
            "value": "1.23457e+06 us",
            "expected": "800 us to 1200.5 us",
            "baseline": "1000 us",
            "advice": "Look at engine e1.",
            "note": "since version 2",
            "members": MEMBERS,
        },
        "startsAt": SINCE,
        "endsAt": "2027-01-15T08:05:00.000Z",
    }


def test_an_alert_links_to_its_page_where_the_dashboard_has_an_address() -> None:
    """Alertmanager shows it as the alert's source."""
    target = config("alertmanager", dashboard_url="https://fleet.example/")

    (posted,) = json.loads(request_of(target, sending(full_alert()), NOW_MS).body)

    assert posted["generatorURL"] == "https://fleet.example/alerts?alert=0123456789abcdef"


@pytest.mark.parametrize(
    ("fields", "starts", "ends"),
    [
        pytest.param({"resolved_ms": NOW_MS - 1_000}, SINCE, "2027-01-15T07:59:59.000Z", id="then"),
        pytest.param({"resolved_ms": NOW_MS + 9_000}, SINCE, NOW, id="not later than now"),
        pytest.param({"resolved_ms": 1}, SINCE, SINCE, id="not before it began"),
        pytest.param({"resolved_ms": None}, SINCE, NOW, id="the transition's time where there is none"),
        pytest.param({"since_ms": NOW_MS + 9_000}, NOW, NOW, id="a start in the future is now"),
    ],
)
def test_resolved_in_alertmanager_has_ended(fields: dict[str, Any], starts: str, ends: str) -> None:
    """Alertmanager rejects ends before starts and takes an end in the future for still open."""
    (posted,) = body("alertmanager", an_alert(transition="resolved", **fields))

    assert (posted["startsAt"], posted["endsAt"]) == (starts, ends)


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("host", "host"),
        ("gpu.uuid", "gpu_uuid"),
        ("9x", "_9x"),
        ("", "_"),
        ("é", "_"),
        ("alertname", "exported_alertname"),
    ],
)
def test_names_of_labels_become_valid(name: str, valid: str) -> None:
    """Letters, digits and underscores, no digit in front, ours kept free."""
    assert label_name(name) == valid


def test_two_names_that_become_one_are_both_kept() -> None:
    """The first in order of names has the name; an empty value is no label."""
    labels = alertmanager_labels(an_alert(labels={"a_b": "3", "a.b": "2", "a-b": "1", "empty": ""}))

    assert {name: value for name, value in labels.items() if name not in ALERTMANAGER_LABELS} == {
        "a_b": "1",
        "a_b_2": "2",
        "a_b_3": "3",
    }


def test_an_alert_whose_labels_change_ends_under_the_old_ones() -> None:
    """Alertmanager knows it by its labels: a worse severity is another alert to it."""
    before, now = an_alert(), an_alert(number=2, transition="updated", severity="critical")

    posted = body("alertmanager", now, before=before)

    assert [(one["labels"]["severity"], one["endsAt"]) for one in posted] == [
        ("warning", NOW),
        ("critical", "2027-01-15T08:05:00.000Z"),
    ]
    assert len(body("alertmanager", an_alert(number=2, transition="updated", value=2.0), before=before)) == 1
    assert len(body("alertmanager", now)) == 1


def test_open_alerts_are_sent_again_in_one_request_without_a_key() -> None:
    """All alerts of a batch, each as it was sent before."""
    request = renotify_request_of(config("alertmanager"), [an_alert("a"), an_alert("b")], NOW_MS)

    assert json.loads(request.body) == [*body("alertmanager", an_alert("a")), *body("alertmanager", an_alert("b"))]
    assert request.key is None


def mrkdwn(text: str) -> dict[str, Any]:
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def test_slack_gets_a_text_and_a_coloured_attachment() -> None:
    """Control characters escaped; facts as fields, sentences as sections, where and when as context."""
    where = "ttft_high · engine_id=e1, gpu.uuid=GPU-1, host=h1, model=m, severity=odd"
    title = "[CRITICAL] TTFT 40 % above &lt;baseline&gt; &amp; rising"
    facts = [mrkdwn(f"*{name}*\n{text}") for name, text in FACTS]
    blocks = [
        {"type": "section", "text": mrkdwn(f"*{title}*")},
        {"type": "section", "fields": facts},
        {"type": "section", "text": mrkdwn("*advice*\nLook at engine e1.")},
        {"type": "section", "text": mrkdwn("*note*\nsince version 2")},
        {"type": "section", "text": mrkdwn(f"*members*\n{MEMBERS}")},
        {"type": "context", "elements": [mrkdwn(f"{where} · since {SINCE} · 0123456789abcdef")]},
    ]

    assert body("slack", full_alert()) == {
        "text": title,
        "unfurl_links": False,
        "unfurl_media": False,
        "attachments": [{"color": "#d00000", "blocks": blocks}],
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("*bold* ~gone~ `code`", "∗bold∗ ∼gone∼ ˋcodeˋ"),
        ("_slanted_ a_b __x__ é_é", "＿slanted＿ a_b ＿＿x＿＿ é_é"),
        ("see http://evil.example/login", "see http[:]//evil.example/login"),
        ("@here x@y.example <!channel>", "＠here x@y.example &lt;!channel&gt;"),
        ("a & b", "a &amp; b"),
    ],
)
def test_markup_in_texts_of_others_is_shown_letter_by_letter(text: str, shown: str) -> None:
    """Names that have an underscore within stay as they are."""
    assert slack_text(text) == shown


def test_no_label_begins_a_line_or_controls_a_terminal() -> None:
    """In every place where people read; machines get what was sent."""
    evil = "t*\n*[RESOLVED] all is well*\x1b[2J\u202e http://evil.example"
    member = Member("kv", "info", {"tenant": evil}, NOW_MS, None, None, evil)
    alert = an_alert(
        summary=evil, note=evil, advice=evil, unit=evil, value=1.0, labels={"host": evil}, members=(member,)
    )

    (attachment,) = body("slack", alert)["attachments"]
    texts = [block["text"]["text"] for block in attachment["blocks"] if "text" in block]
    texts += [block["elements"][0]["text"] for block in attachment["blocks"] if "elements" in block]
    page = body("pagerduty", alert)["payload"]
    (posted,) = body("alertmanager", alert)
    assert texts[0] == "*[WARNING] t∗ ∗[RESOLVED] all is well∗\ufffd[2J\ufffd http[:]//evil.example*"
    assert [text.count("\n") for text in texts] == [0, 1, 1, 1, 0]
    shown = [page["summary"], page["source"], page["component"], *page["custom_details"]["labels"].values()]
    shown += [*[*page["custom_details"].values()][:4], *posted["annotations"].values()]
    assert all(text.isprintable() for text in shown)
    assert (posted["labels"]["host"], json.loads(encode(alert))["summary"]) == (evil, evil)


def test_slack_limits_hold_for_texts_of_any_length() -> None:
    """3,000 characters a section, 2,000 a field; a resolved alert is green and is titled so."""
    message = body("slack", full_alert(transition="resolved", summary="<!channel>" * 1_000, note="x" * 9_000))

    (attachment,) = message["attachments"]
    texts = [block["text"]["text"] for block in attachment["blocks"] if "text" in block]
    assert (attachment["color"], len(message["text"]), max(map(len, texts))) == ("#2eb67d", 3_000, 3_000)
    assert message["text"].startswith("[RESOLVED] &lt;!channel&gt;")


def test_pagerduty_gets_a_trigger() -> None:
    """Events API v2: routing key, action, dedup key, payload."""
    assert body("pagerduty", full_alert()) == {
        "routing_key": "R" * 32,
        "event_action": "trigger",
        "dedup_key": "0123456789abcdef",
        "client": "fleetpulse",
        "payload": {
            "summary": "TTFT 40 % above <baseline> & rising",
            "source": "e1",
            "severity": "critical",
            "timestamp": SINCE,
            "component": "e1",
            "group": "m",
            "class": "ttft_high",
            "custom_details": {
                "value": "1.23457e+06 us",
                "expected": "800 us to 1200.5 us",
                "baseline": "1000 us",
                "advice": "Look at engine e1.",
                "note": "since version 2",
                "members": MEMBERS,
                "labels": {"engine_id": "e1", "gpu.uuid": "GPU-1", "host": "h1", "model": "m", "severity": "odd"},
            },
        },
    }


@pytest.mark.parametrize(
    ("transition", "acknowledge", "action", "key"),
    [
        ("opened", False, "trigger", "aa-1799999940000-1"),
        ("updated", False, "trigger", "aa-1799999940000-1"),
        ("resolved", False, "resolve", "aa-1799999940000-1"),
        ("updated", True, "acknowledge", "aa-1799999940000-1-acknowledge"),
    ],
)
def test_pagerduty_follows_the_life_of_an_alert(transition: str, acknowledge: bool, action: str, key: str) -> None:
    """One incident per fingerprint; an acknowledgement is a request of its own."""
    request = request_of(config("pagerduty"), sending(an_alert(transition=transition), acknowledge=acknowledge), NOW_MS)

    event = json.loads(request.body)
    assert (event["event_action"], event["dedup_key"], request.key, "payload" in event) == (
        action,
        "aa",
        key,
        action == "trigger",
    )


def test_a_summary_beyond_pagerdutys_limit_is_cut() -> None:
    """1,024 characters; without a summary the rule stands for it."""
    assert len(body("pagerduty", an_alert(summary="x" * 2_000))["payload"]["summary"]) == 1_024
    assert body("pagerduty", an_alert(summary="", labels={}))["payload"] == {
        "summary": "ttft_high",
        "source": "fleet",
        "severity": "warning",
        "timestamp": SINCE,
        "class": "ttft_high",
        "custom_details": {"labels": {}},
    }


def test_a_webhook_gets_the_record_as_it_stands() -> None:
    """Byte for byte, with key, token and a signature of the moment."""
    target = config(hmac_key="k" * 16, bearer_token="secret-token")
    request = request_of(target, sending(an_alert()), NOW_MS)
    headers = request.headers(target, NOW_MS)

    assert request.body == encode(an_alert())
    assert verify(b"k" * 16, request.body, headers.pop(SIGNATURE), NOW_MS // 1_000)
    assert headers == {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "fleetpulse-deliver",
        "Idempotency-Key": "aa-1799999940000-1",
        "Authorization": "Bearer secret-token",
    }


def test_of_many_members_the_first_are_shown() -> None:
    """Twenty, and how many there are beyond."""
    members = tuple(Member(f"r{n}", "info", {}, 0, None) for n in range(22))

    lines = body("alertmanager", an_alert(members=members))[0]["annotations"]["members"].split("\n")

    assert (len(lines), lines[0], lines[-1]) == (21, "[info] r0 ()", "and 2 more")
    assert "members" not in body("alertmanager", an_alert())[0]["annotations"]


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(None, None, None), (1.0, None, "1 or more"), (None, 2.0, "up to 2"), (1.0, 2.0, "1 to 2"), (0.0, 0.0, "0 to 0")],
)
def test_ranges_in_words(low: float | None, high: float | None, text: str | None) -> None:
    """An end that is not known is not made up; 0 is a number."""
    assert body("alertmanager", an_alert(low=low, high=high))[0]["annotations"].get("expected") == text


DOCS = (Path(__file__).resolve().parents[4] / "docs" / "how-to" / "alerts.md").read_text()


def test_the_record_of_the_docs_is_one() -> None:
    """With every field of the contract."""
    (example,) = re.findall(r"```json\n(.*?)```", DOCS, re.DOTALL)

    found = json.loads(example)

    assert transition_of(record(example.encode())).alert.transition_id == found["transition_id"]
    assert set(found) == set(json.loads(encode(an_alert())))


def test_the_settings_of_the_docs_are_good(tmp_path: Path) -> None:
    """As they stand, but for the files they name."""
    (example,) = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
    for name, text in (("slack-url", "https://hooks.example/T/B/x"), ("pagerduty-key", "k"), ("alert-key", "k" * 16)):
        (tmp_path / name).write_text(text)

    found = DeliveryConfig(**tomllib.loads(example.replace("/run/secrets", str(tmp_path)))["delivery"])

    assert [one.kind for one in found.all_targets] == ["alertmanager", "slack", "pagerduty", "webhook"]


def test_the_check_of_signatures_in_the_docs_works() -> None:
    """On what we send now, and on nothing older than five minutes."""
    (example,) = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    now_s = int(time.time())

    assert names["is_ours"](b"k" * 16, b"{}", sign(b"k" * 16, b"{}", now_s))
    assert not names["is_ours"](b"k" * 16, b"{}", sign(b"k" * 16, b"{}", now_s - 310))
    assert not names["is_ours"](b"k" * 16, b"{ }", sign(b"k" * 16, b"{}", now_s))
