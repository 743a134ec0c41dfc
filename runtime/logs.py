"""Logs: the standard library's loggers in front, structlog's formatter behind.

Code writes ``_log.info("assigned", extra={"topic": topic, "partition": 3})``. On a terminal that is one readable
line; anywhere else one JSON object per line, with ``at`` in UTC, ``level``, ``logger``, ``process`` and the facts.
A fact ``cause`` of the runbook has its link beside it, also where the line is one of the Kafka client.
"""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from runtime.clock import SystemClock
from runtime.counters import COUNTERS
from runtime.runbook import Cause
from runtime.version import version
from schemas.errors import ConfigError

_CLICKHOUSE = ("clickhouse_connect", "urllib3")
"""They warn twice at every attempt, without a cause: who retries says why, once a minute."""
_NOISY = dict.fromkeys(("aiokafka", *_CLICKHOUSE), logging.ERROR) | dict.fromkeys(("faust", "mode"), logging.WARNING)
_REPEATING = ("aiokafka", "stream_jobs.runner.limits")
"""Loggers that write the same line at every attempt while a broker is unavailable, ten a second, or at every commit."""
CLIENT_LINES = {
    "Unable connect to": Cause.KAFKA,
    "Unable to update metadata": Cause.KAFKA,
    "Failed fetch": Cause.KAFKA,
    "Error sending": Cause.KAFKA,
    "Heartbeat send request failed": Cause.KAFKA,
    "Group Coordinator Request failed": Cause.KAFKA,
    "FindCoordinator Request failed": Cause.KAFKA,
    "Topic %s not found": Cause.TOPIC,
    "Topic %s is not authorized": Cause.KAFKA_LOGIN,
    "OffsetCommit failed for unauthorized": Cause.KAFKA_LOGIN,
}
"""What the Kafka client's errors are called, by how their messages begin."""
_BELOW = tuple(f"{name}." for name in _REPEATING)
_TELL_APART = ("cause", "server", "group", "target", "topic")
"""Facts that make two lines with one message lines about two things."""
_REPEATED_AFTER_S = 60.0
_STARTED_MS = SystemClock().now_ms()
_REPEATS_MAX = 1_000
_KNOWN = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


def configure(process: str, *, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send every logger's lines to ``stream`` (standard error). ``process`` stands in every line, and in /metrics of
    this process. Calling again replaces what was set before. Raises ConfigError on an unknown level."""
    if level.upper() not in logging.getLevelNamesMapping():
        raise ConfigError("log.level", level, "must be DEBUG, INFO, WARNING, ERROR or CRITICAL")
    COUNTERS.set("process_info", 1, process=process)
    COUNTERS.set("build_info", 1, process=process, version=version())
    COUNTERS.set("process_start_ms", _STARTED_MS, process=process)
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    handler.addFilter(name_cause)
    handler.addFilter(Repeats())
    handler.setFormatter(_formatter(process, human=target.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in _NOISY.items():
        logging.getLogger(name).setLevel(least)


def name_cause(record: logging.LogRecord) -> bool:
    """Give a line of the Kafka client the cause that it is a sign of, so that it leads to its section. It passes."""
    if record.name.startswith("aiokafka."):
        begins = str(record.msg)
        record.cause = next((cause for line, cause in CLIENT_LINES.items() if begins.startswith(line)), None)
    return True


class Repeats(logging.Filter):
    """Of equal lines that name one cause of the runbook, or are of ``_REPEATING`` and the loggers below them, one a
    minute: the first at once, a later one with the fact ``repeats``, how many were left out before it. What has a
    traceback, or is another's, always passes."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[tuple[str, ...], tuple[float, int]] = {}  # when it passed, and what was left out since
        self._one = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line passes."""
        cause = getattr(record, "cause", None)
        if record.exc_info or (cause is None and not f"{record.name}.".startswith(_BELOW)):
            return True
        with self._one:
            return self._passes(record)

    def _passes(self, record: logging.LogRecord) -> bool:
        line = (record.name, record.getMessage(), *(str(getattr(record, fact, "")) for fact in _TELL_APART))
        passed_s, left_out = self._lines.pop(line, (None, 0))
        if passed_s is not None and 0 <= record.created - passed_s < _REPEATED_AFTER_S:
            self._lines[line] = (passed_s, left_out + 1)
            return False
        if len(self._lines) >= _REPEATS_MAX:
            del self._lines[next(iter(self._lines))]  # the one not seen for longest
        self._lines[line] = (record.created, 0)
        if left_out:
            record.repeats = left_out
        return True


def _formatter(process: str, *, human: bool) -> logging.Formatter:
    def named(_logger: Any, _method: str, event: EventDict) -> EventDict:
        event["process"] = process
        return event

    stamp = "%H:%M:%S" if human else "iso"
    before: list[Processor] = [
        _facts,
        named,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt=stamp, utc=not human, key="timestamp" if human else "at"),
    ]
    last: list[Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if human
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=before, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
    )


def _facts(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """What came as ``extra=`` becomes facts of the line."""
    record: logging.LogRecord | None = event.get("_record")
    if record is not None:
        event.update({key: value for key, value in record.__dict__.items() if key not in _KNOWN | event.keys()})
    if isinstance(cause := event.get("cause"), Cause):
        event["runbook"] = cause.url
    elif cause is None:
        event.pop("cause", None)
    return event
