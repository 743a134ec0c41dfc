"""Causes have one name everywhere, and every link to the runbook leads to a section of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runtime.runbook import FLEET_ALERTS, PAGE, QUARANTINE, Cause, cause_of, named, read_at
from schemas.errors import (
    BrokenPartError,
    CertificateExpiredError,
    ConfigError,
    ContractError,
    DiskFullError,
    FleetpulseError,
    TopicMissingError,
    UnavailableError,
)

ROOT = Path(__file__).parents[3]


def headings() -> list[str]:
    text = re.sub(r"^```.*?^```", "", (ROOT / PAGE).read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


def anchors() -> set[str]:
    """As GitHub and MkDocs make them of a heading."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings()}


def rules() -> Iterator[dict[str, dict[str, str]]]:
    for group in yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yaml").read_text())["groups"]:
        yield from group["rules"]


@pytest.fixture
def _own_page() -> Iterator[None]:
    """Links lead to the page of this checkout again."""
    yield
    read_at(PAGE)


def test_every_cause_is_a_heading_of_the_runbook() -> None:
    """In its words, and with the anchor that links name."""
    assert set(Cause) <= set(headings())
    assert {cause.anchor for cause in Cause} | {FLEET_ALERTS, QUARANTINE} <= anchors()


def test_every_alert_has_a_runbook_url_with_a_section_behind_it() -> None:
    """Of the rules as they are shipped: all of them, and none of an anchor that is not there."""
    urls = [rule["annotations"]["runbook_url"].split("#") for rule in rules()]

    assert len(urls) > 25
    assert {page for page, _ in urls} == {PAGE}
    assert {anchor for _, anchor in urls} - anchors() == set()


def test_an_alert_of_a_cause_says_it_in_its_words() -> None:
    """What a process counts by the cause, and what people read of it."""
    found = {rule["annotations"]["runbook_url"].split("#")[1]: rule for rule in rules() if "_cause{" in rule["expr"]}

    servers = {"kafka-unavailable", "clickhouse-unavailable"}
    assert servers | {"kafka-rejected-the-login", "clickhouse-rejected-the-login"} <= set(found)
    for cause in Cause:
        if (rule := found.get(cause.anchor)) is not None:
            assert f'cause="{cause}"' in rule["expr"]
            assert cause in rule["annotations"]["summary"]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (UnavailableError("Kafka at a:9092 does not answer"), Cause.KAFKA),
        (UnavailableError("ClickHouse at http://a does not answer"), Cause.CLICKHOUSE),
        (UnavailableError("send: no answer in time"), None),
        (ConfigError("clickhouse.user", "a", "must be a login"), Cause.CLICKHOUSE_LOGIN),
        (ConfigError("kafka.sasl_username", "a", "must be a login"), Cause.KAFKA_LOGIN),
        (ConfigError("kafka.bootstrap", "a", "must be host:port"), Cause.SETTING),
        (ConfigError("file", "rules.yaml", "must be valid"), Cause.SETTING),
        (ConfigError("kafka.deployment", "blue", "must be theirs"), Cause.DEPLOYMENT),
        (ConfigError("--to", "x", "must be an offset"), None),
        (UnavailableError("Kafka unavailable: send: no answer"), Cause.KAFKA),
        (ContractError("Kafka has no such topic"), None),
        (TopicMissingError("books"), Cause.TOPIC),
        (CertificateExpiredError("b:9092 shows a certificate out of its time"), Cause.CERTIFICATE),
        (BrokenPartError("ClickHouse at http://a: part all_1_1_0 of a.b is broken"), Cause.PART),
        (DiskFullError("ClickHouse at http://a: No space left on device"), Cause.DISK),
    ],
    ids=str,
)
def test_an_error_has_the_cause_of_its_setting_or_server(error: FleetpulseError, cause: Cause | None) -> None:
    """Its text is put behind the cause's name, once."""
    assert cause_of(error) == cause
    assert named(error).startswith(cause or str(error))
    assert named(error).endswith(str(error))
    assert cause is None or named(error).count(cause) == 1


@pytest.mark.usefixtures("_own_page")
def test_links_lead_to_where_the_page_is_read() -> None:
    """The page of a checkout without a setting, else the address that it names."""
    assert Cause.KAFKA.url == "docs/how-to/running.md#kafka-unavailable"

    read_at("https://docs.example/running/")

    assert Cause.KAFKA.url == "https://docs.example/running/#kafka-unavailable"


def test_whoever_is_on_call_finds_all_steps_of_a_broken_part_in_its_section() -> None:
    """What takes it out, what stops the sink, and what has both of its groups read again, as the page of backups says;
    lines that need a place filled in are no block, which drills paste."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    (section,) = re.findall(rf"^### {Cause.PART}\n(.*?)^### ", text, re.MULTILINE | re.DOTALL)
    backups = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    resets = re.findall(r"`(kafka-consumer-groups.sh [^`]+)`", section)

    assert block.splitlines() == ["fleetpulse doctor", "fleetpulse reconcile"]
    assert "DETACH" in section
    assert "systemctl stop fleetpulse-sink" in section
    assert resets == [
        " ".join(line.replace("--to-datetime 2026-01-01T00:00:00.000", "--to-earliest").split())
        for line in backups.splitlines()
        if line.startswith("kafka-consumer-groups.sh")
    ]
