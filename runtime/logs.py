"""Logs: the standard library's loggers in front, structlog's formatter behind.

Code writes ``_log.info("assigned", extra={"topic": topic, "partition": 3})``. On a terminal that is one readable
line; anywhere else one JSON object per line, with ``at`` in UTC, ``level``, ``logger``, ``process`` and the facts.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

from schemas.errors import ConfigError

_NOISY = {"aiokafka": logging.ERROR, "faust": logging.WARNING, "mode": logging.WARNING, "urllib3": logging.WARNING}
_KNOWN = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


def configure(process: str, *, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send every logger's lines to ``stream`` (standard error). ``process`` is told in every line. Calling again
    replaces what was set before. Raises ConfigError on an unknown level."""
    if level.upper() not in logging.getLevelNamesMapping():
        raise ConfigError("log.level", level, "must be DEBUG, INFO, WARNING, ERROR or CRITICAL")
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    handler.setFormatter(_formatter(process, human=target.isatty()))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in _NOISY.items():
        logging.getLogger(name).setLevel(least)


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
        foreign_pre_chain=before,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def _facts(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """What came as ``extra=`` becomes facts of the line."""
    record: logging.LogRecord | None = event.get("_record")
    if record is not None:
        event.update({key: value for key, value in record.__dict__.items() if key not in _KNOWN | event.keys()})
    return event
