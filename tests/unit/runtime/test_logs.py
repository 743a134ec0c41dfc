import io
import json
import logging
import re
from pathlib import Path

import aiokafka
import pytest

from runtime import logs
from runtime.clock import SystemClock
from runtime.counters import COUNTERS
from runtime.runbook import PAGE, Cause
from runtime.version import version
from schemas.errors import ConfigError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_one_json_object_with_its_facts() -> None:
    """Away from a terminal: time in UTC, level, logger, process, sentence, facts."""
    stream = io.StringIO()
    logs.configure("sink", stream=stream)

    logging.getLogger("sinks.insert").info("inserted %d rows", 3, extra={"table": "partials", "rows": 3})

    line = json.loads(stream.getvalue())
    assert line.pop("at").endswith("Z")
    assert line == {
        "event": "inserted 3 rows",
        "level": "info",
        "logger": "sinks.insert",
        "process": "sink",
        "table": "partials",
        "rows": 3,
    }


def test_a_cause_of_the_runbook_has_its_link_beside_it() -> None:
    """A fact of this name that is another's stays as it is, and one that is not known is left out."""
    stream = io.StringIO()
    logs.configure("sink", stream=stream)

    for cause in (Cause.CLICKHOUSE, "log_cut", None):
        logging.getLogger("sinks.insert").warning("retrying", extra={"cause": cause})

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line.get("cause"), line.get("runbook")) for line in lines] == [
        ("ClickHouse unavailable", "docs/how-to/running.md#clickhouse-unavailable"),
        ("log_cut", None),
        (None, None),
    ]
    assert "cause" not in lines[2]
    assert COUNTERS.value("process_info", process="sink") == 1
    assert COUNTERS.value("build_info", process="sink", version=version()) == 1


def test_a_process_reports_when_it_started_however_often_its_lines_are_configured() -> None:
    """So that restarts can be counted from outside."""
    seen = set()
    for _ in range(2):
        logs.configure("sink", stream=io.StringIO())
        seen.add(COUNTERS.value("process_start_ms", process="sink"))

    (started_ms,) = seen
    assert 0 < SystemClock().now_ms() - started_ms < 24 * 3_600_000


def test_a_traceback_stays_on_its_line() -> None:
    """An exception is a field of the line, not lines of its own."""
    stream = io.StringIO()
    logs.configure("job", stream=stream)

    try:
        raise KeyError("lost")
    except KeyError:
        logging.getLogger("job").exception("fold failed")

    (line,) = stream.getvalue().splitlines()
    assert "KeyError: 'lost'" in json.loads(line)["exception"]


def test_facts_that_json_does_not_know_are_told_as_text() -> None:
    """A path or any other object does not break the line."""
    stream = io.StringIO()
    logs.configure("job", stream=stream)

    logging.getLogger("job").info("wrote", extra={"fact": {1}})

    assert json.loads(stream.getvalue())["fact"] == "{1}"


def test_on_a_terminal_a_line_is_for_people() -> None:
    """Readable, with the facts behind the sentence, and no JSON."""
    stream = Terminal()
    logs.configure("job", stream=stream)

    logging.getLogger("job").warning("lag grows", extra={"lag": 12})

    text = stream.getvalue()
    assert "lag grows" in text
    assert "12" in text
    assert not text.startswith("{")


def test_levels_below_the_chosen_one_are_silent() -> None:
    """WARNING hides INFO."""
    stream = io.StringIO()
    logs.configure("job", level="warning", stream=stream)

    logging.getLogger("job").info("hidden")

    assert stream.getvalue() == ""


def test_configuring_again_replaces() -> None:
    """No line is written twice."""
    first, second = io.StringIO(), io.StringIO()
    logs.configure("job", stream=first)
    logs.configure("job", stream=second)

    logging.getLogger("job").info("once")

    assert (first.getvalue(), len(second.getvalue().splitlines())) == ("", 1)


def test_an_unknown_level_is_named() -> None:
    """The error lists the levels there are."""
    with pytest.raises(ConfigError, match="DEBUG, INFO"):
        logs.configure("job", level="LOUD")


AWAY = "Unable connect to %s"


def record(at_s: float, *arguments: object, name: str = "aiokafka", text: str = AWAY) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.ERROR, "", 0, text, arguments, None)
    made.created = at_s
    return made


def passed(repeats: logs.Repeats, *records: logging.LogRecord) -> list[tuple[float, int]]:
    """When those that pass were written, and how many each says were left out."""
    return [(each.created, getattr(each, "repeats", 0)) for each in records if repeats.filter(each)]


def test_a_client_that_says_the_same_at_every_attempt_says_it_once_a_minute() -> None:
    """The first at once; the next one says how many were left out since."""
    lines = [record(at_ms / 1_000, "kafka-1") for at_ms in range(0, 150_000, 100)]

    assert passed(logs.Repeats(), *lines) == [(0, 0), (60, 599), (120, 599)]


def test_lines_that_differ_do_not_hide_each_other() -> None:
    """Another broker, another logger below the client's."""
    lines = [record(0, "kafka-1"), record(1, "kafka-2"), record(2, "kafka-1", name="aiokafka.conn")]

    assert passed(logs.Repeats(), *lines) == [(0, 0), (1, 0), (2, 0)]


def test_a_cause_that_lasts_is_said_once_a_minute_by_whoever_is_kept_from_work() -> None:
    """Whatever its attempt is; another cause, or another server behind the same line, is said at once."""
    lines = [record(at_s, name="sinks.service", text="retrying") for at_s in range(70)]
    for attempt, line in enumerate(lines):
        line.__dict__.update(cause=Cause.CLICKHOUSE, server="ClickHouse (sink)", attempt=attempt)
    lines[1].__dict__.update(cause=Cause.KAFKA)
    lines[2].__dict__.update(server="ClickHouse (raw)")

    assert passed(logs.Repeats(), *lines) == [(0, 0), (1, 0), (2, 0), (60, 57)]


@pytest.mark.parametrize("name", ["producers.publish.publisher", "aiokafkaesque", "root"])
def test_what_others_say_is_never_left_out(name: str) -> None:
    """However often they say it."""
    assert passed(logs.Repeats(), *[record(0, "x", name=name)] * 3) == [(0, 0)] * 3


def test_a_traceback_is_never_left_out() -> None:
    """A bug in the client itself is logged each time."""
    defect = record(0, "x")
    defect.exc_info = (KeyError, KeyError("x"), None)

    assert passed(logs.Repeats(), defect, defect) == [(0, 0)] * 2


def test_a_clock_that_was_set_back_hides_nothing() -> None:
    """Else an hour set back would be an hour of silence."""
    assert passed(logs.Repeats(), record(3_600, "x"), record(10, "x"), record(20, "x")) == [(3_600, 0), (10, 0)]


def test_lines_that_vary_without_end_take_no_memory_without_end() -> None:
    """The one not seen for longest is forgotten, and passes when it comes again."""
    repeats = logs.Repeats()
    passed(repeats, record(0, "often"), record(0, "once"), *[record(1, number) for number in range(998)])
    seen_again = record(2, "often")

    assert passed(repeats, seen_again, record(3, 998), record(4, "often"), record(5, "once")) == [(3, 0), (5, 0)]


def test_left_out_lines_are_told_as_a_fact() -> None:
    """Where loggers are configured; other lines stay as they were."""
    stream = io.StringIO()
    logs.configure("job", stream=stream)
    logger = logging.getLogger("aiokafka")
    for at_s in (0, 1, 2, 60):
        logger.handle(record(at_s, "kafka-1"))
    for _ in range(2):
        logging.getLogger("job").warning("waiting")

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line.get("repeats")) for line in lines] == [
        ("Unable connect to kafka-1", None),
        ("Unable connect to kafka-1", 2),
        ("waiting", None),
        ("waiting", None),
    ]


def test_lines_of_the_kafka_client_have_the_cause_that_they_are_a_sign_of() -> None:
    """By how its own messages begin: each is in its source. A line about anything else has none."""
    stream = io.StringIO()
    logs.configure("job", stream=stream)
    client = logging.getLogger("aiokafka.conn")
    client.error("Unable connect to node with id %s: %s", 1, "refused")
    client.error("Topic %s not found in cluster metadata", "books")
    client.error("A cycle of length %d was found: %r", 3, [])
    logging.getLogger("aiokafkaesque").error("Unable connect to node")
    sources = "".join(file.read_text() for file in Path(aiokafka.__file__).parent.rglob("*.py"))

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("cause") for line in lines] == [Cause.KAFKA, Cause.TOPIC, None, None]
    assert lines[0]["runbook"] == Cause.KAFKA.url
    assert [begins for begins in logs.CLIENT_LINES if f'"{begins}' not in sources.replace("'", '"')] == []


def test_lines_of_the_kafka_client_are_documented() -> None:
    """Each beside the cause that it is given."""
    page = (Path(__file__).resolve().parents[3] / PAGE).read_text()
    rows = re.findall(r"^\| `([^`]+)` \| \[([^]]+)\]", page, re.MULTILINE)

    assert {begins.replace("…", "%s"): cause for begins, cause in rows}.items() >= logs.CLIENT_LINES.items()


def test_what_clients_of_clickhouse_try_again_is_said_by_who_retries() -> None:
    """Their warnings at every attempt name no cause; their errors are written."""
    stream = io.StringIO()
    logs.configure("sink", stream=stream)
    for name in ("clickhouse_connect.driver._backend.http_sync", "urllib3.connectionpool"):
        logging.getLogger(name).warning("Unexpected Http Driver Exception")
        logging.getLogger(name).error("broken")

    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["broken"] * 2


def test_slow_commits_are_said_once_a_minute_also_without_a_cause() -> None:
    """By topic: where processors are short every one is slow. Another logger of jobs is none of it."""
    repeats = logs.Repeats()
    name, other = "stream_jobs.runner.limits", "stream_jobs.runner.limits_of_others"
    lines = [
        logging.makeLogRecord({"name": name, "msg": "commit took long", "topic": topic, "created": at_s})
        for name, topic, at_s in ((name, "a", 0), (name, "a", 9), (name, "b", 9), (other, "a", 9), (other, "a", 10))
    ]

    assert [repeats.filter(line) for line in lines] == [True, False, True, True, True]
