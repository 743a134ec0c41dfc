"""Rights by role: no role of the edge can write what jobs make, and each has what its topics say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schemas.contract.rights import JOBS_WRITE, ROLES, Operation, Resource, Right, rights_of, writers_of_both
from schemas.contract.topics import ALERT_COMMANDS, SOURCE_TOPICS, STATE_TOPICS, TOPICS, WINDOW_PARTIALS

WRITE, READ = Operation.WRITE, Operation.READ
PAGE = Path(__file__).resolve().parents[4] / "docs" / "how-to" / "operations.md"
STATES = {topic.name for topic in STATE_TOPICS}
WORDS = {
    "sources": {topic.name for topic in SOURCE_TOPICS},
    "results": set(JOBS_WRITE) - STATES,
    "all topics": {topic.name for topic in TOPICS},
    "`state.*`": STATES,
}
"""What the page calls several topics."""


def topics(role: str, operation: Operation) -> set[str]:
    return {one.name for one in rights_of(role, "d") if one.resource is Resource.TOPIC and one.operation is operation}


def test_an_edge_writes_events_its_books_and_its_engines() -> None:
    """And reads only whose topics they are; a gateway reads engines of other hosts, too."""
    events = {topic.name for topic in SOURCE_TOPICS}

    assert topics("edge", WRITE) == topics("gateway", WRITE) == events | {"books", "engines"}
    assert topics("edge", READ) == {"contract"}
    assert topics("gateway", READ) == {"contract", "engines"}
    assert not [one for one in rights_of("edge", "d") if one.resource is not Resource.TOPIC]


def test_every_topic_is_written_by_some_role_and_read_by_one() -> None:
    """None that the contract has was forgotten."""
    every = {topic.name for topic in TOPICS}

    assert set.union(*(topics(role, WRITE) for role in ROLES)) == every
    assert topics("people", READ) == every


def test_results_are_written_by_jobs_alone() -> None:
    """Books by the edge, too: each row of it says whose they are; the audit by whoever does something."""
    derived = {name for name in topics("jobs", WRITE) if name not in ("books", "alert.commands")}
    others = set.union(*(topics(role, WRITE) for role in ROLES if role != "jobs"))

    assert WINDOW_PARTIALS in derived
    assert derived & others == set()


def test_a_prefix_and_a_deployment_are_in_every_name() -> None:
    """Those of groups and transactional ids are the deployment's, and stand before whatever follows."""
    found = rights_of("jobs", "blue.b", "blue.")

    assert all(one.name.startswith("blue.") for one in found)
    assert Right(Resource.TRANSACTIONAL_ID, "blue.b-", WRITE, prefixed=True) in found
    assert Right(Resource.GROUP, "blue.b-windows", READ, prefixed=True) in found


@pytest.mark.parametrize(
    ("rights", "both"),
    [
        (
            [Right(Resource.TOPIC, "gpu.samples", WRITE), Right(Resource.TOPIC, "costs", WRITE)],
            ("gpu.samples", "costs"),
        ),
        ([Right(Resource.TOPIC, "", WRITE, prefixed=True)], ("llm.requests", WINDOW_PARTIALS)),
        ([Right(Resource.TOPIC, "*", WRITE)], ("llm.requests", WINDOW_PARTIALS)),
        ([Right(Resource.TOPIC, "gpu.samples", WRITE), Right(Resource.TOPIC, "costs", READ)], None),
        ([Right(Resource.TOPIC, "gpu.samples", WRITE), Right(Resource.TOPIC, "books", WRITE)], None),
        ([Right(Resource.GROUP, "*", WRITE)], None),
        *((sorted(rights_of(role, "d")), None) for role in ROLES),
    ],
)
def test_a_login_that_writes_events_and_results_is_named(rights: list[Right], both: tuple[str, str] | None) -> None:
    """An example of each; by any kind of name. No role is one."""
    assert writers_of_both({"User:x": rights}) == ({} if both is None else {"User:x": both})


def test_a_right_reads_as_kafkas_own_tools_say_it() -> None:
    """For plans and findings."""
    assert Right(Resource.TRANSACTIONAL_ID, "d-", WRITE, prefixed=True).subject == "transactional id d-*"
    assert str(Operation.DESCRIBE_CONFIGS) == "DescribeConfigs"


def told(role: str) -> set[tuple[str, str]]:
    """(operation, topic) that the page's row of a role names."""
    (row,) = re.findall(rf"^\| `{role}` \|.*\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    found = set()
    for clause in re.sub(r"\(.*?\)", "", row.split(". ")[0]).split(";"):
        operations, _, subjects = clause.partition(" on ")
        names = set(re.findall(r"`([a-z.]+)`", subjects))
        names |= {name for word, several in WORDS.items() if word in subjects for name in several}
        found |= {(operation, name) for operation in re.split(r", | and ", operations.strip()) for name in names}
    return found


@pytest.mark.parametrize("role", ROLES)
def test_the_page_of_operations_tells_the_rights_on_topics(role: str) -> None:
    """Those who set access lists by hand copy them from there."""
    topics_of = {(str(one.operation), one.name) for one in rights_of(role, "d") if one.resource is Resource.TOPIC}

    assert told(role) == {(operation.replace(" ", ""), name) for operation, name in topics_of}


def test_a_reset_of_a_job_is_audited_by_its_login() -> None:
    """The one topic that jobs write beside results and states."""
    assert topics("jobs", WRITE) - set(JOBS_WRITE) == {ALERT_COMMANDS}
