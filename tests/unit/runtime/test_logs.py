import io
import json
import logging
from collections.abc import Iterator

import pytest

from runtime import logs
from schemas.errors import ConfigError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _own_root() -> Iterator[None]:
    """Leave the root logger as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


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
