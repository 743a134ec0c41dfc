"""Every way in keeps an invented model out of the labels, and a user's name out of everything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from fleetpulse_track.requests import json_of
from producers.agent.publishing import Parcel
from producers.log_tail.service import run_log_tail
from producers.log_tail.tail import LogTailSettings
from producers.otlp.intake import Intake
from producers.proxy.publishing import with_request_log
from producers.receiver.client_fields import Where
from producers.receiver.lines import read_lines
from producers.receiver.once import Once
from producers.requests.client_names import REQUESTED_CHARS_MAX, ClientNames
from producers.requests.request_meta import LABEL_BYTES_MAX
from runtime.counters import Counters
from schemas.codec import native
from schemas.codec.build import block_from_rows, rows_of
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import DEFAULT_LIMITS
from tests.unit.producers.log_tail.test_service import OneSpool
from tests.unit.producers.otlp.test_semconv import LABELS, with_attributes
from tests.unit.producers.proxy.test_proxy_sides import Setting
from tests.unit.producers.receiver import sent
from tests.unit.producers.receiver.test_fold import fold, read

SECRET, USER, INVENTED = b"s", "ann.example", "made-up-7b"
HASH = ClientNames(SECRET).user_hash(USER)
FAILED = {"status": "error", "error_kind": "client", "http_status": 404}


def proxied(secret: bytes | None, _folder: Path, model: str = INVENTED) -> bytes:
    """A body that names the user, answered with 404, logged."""
    body = orjson.dumps({"model": model, "safety_identifier": USER, "messages": []})

    async def run() -> list[dict[str, Any]]:
        setting = Setting(user_hash=secret is not None)
        setting.server.rows._on_row = with_request_log(setting.server.rows._on_row)
        setting.client.data_received(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: p\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        setting.upstream.data_received(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}")
        setting.server.settle()
        return setting.rows

    rows = asyncio.run(run())
    return native.encode(LLM_REQUESTS.fields, block_from_rows(LLM_REQUESTS.fields, rows))


def sent_by_the_sdk(secret: bytes | None, _folder: Path) -> bytes:
    """A datagram that names the user, and what it would call its hash."""
    client, given = sent.Recorded(), list[Any]()
    text = json_of({"model": INVENTED, "user": USER, "request_id": "chatcmpl-a", **FAILED})
    client.hand_over(sent.Finished(0, 0, 0, sent.AT_MS, 0, 0, text, len(text)))
    forged = orjson.dumps({**orjson.loads(text), "user_hash": USER, "request_id": "chatcmpl-b"})
    client.hand_over(sent.Finished(0, 0, 0, sent.AT_MS, 0, 0, forged, len(forged)))
    client.hand_over(sent.Finished(0, 0, 0, sent.AT_MS, 0, 0, forged.replace(b"tcmpl-b", b"tcmpl-c"), len(forged)))
    once = Once()
    once.claim("c", lambda _id, row: given.append(row))
    buffer, ends = sent.together(client.sent)
    where = Where("h", names=ClientNames(secret))
    folded = fold(buffer, read(buffer, ends), where, lambda rows, datagram: once.judge(rows, datagram, 0.0))
    assert (folded.unfit, len(given), USER in str(given)) == ([], 1, False)
    return b"".join(native.encode(LLM_REQUESTS.fields, block) for _, block in folded.blocks)


def posted(secret: bytes | None, _folder: Path) -> bytes:
    """A JSON line over HTTP."""
    line = orjson.dumps({"model": INVENTED, "user": USER, "user_hash": USER, "request_id": "r", **FAILED})
    found = read_lines(line, Where("h", names=ClientNames(secret)), 7, DEFAULT_LIMITS)
    return native.encode(LLM_REQUESTS.fields, found.block)


def as_a_span(secret: bytes | None, _folder: Path) -> bytes:
    """A client's span."""
    taken: list[Parcel] = []
    intake = Intake(LABELS, lambda parcel: taken.append(parcel) is None, names=ClientNames(secret))
    named = {"gen_ai__request__model": INVENTED, "gen_ai__response__model": None, "user__id": USER}
    intake.traces([with_attributes(http__response__status_code=404, **named)])
    return taken[0].batches[0].value


def logged(secret: bytes | None, folder: Path) -> bytes:
    """A line of a log."""
    path = folder / "log"
    path.write_bytes(orjson.dumps({"t": 1, "model": INVENTED, "by": {"user": USER}, "code": 404}) + b"\n")
    fields = {"at_ms": "t ms", "model": "model", "user": "by.user", "http_status": "code"}
    settings = LogTailSettings(path, folder / "position", fields, LABELS, from_start=True, poll_ms=1)
    publisher = OneSpool()

    async def run() -> None:
        stop = asyncio.Event()
        names, counters = ClientNames(secret), Counters()
        tail = run_log_tail(publisher, settings, stop, names=names, counters=counters)  # type: ignore[arg-type]
        running = asyncio.ensure_future(tail)
        await publisher.ids(1)
        stop.set()
        await running

    asyncio.run(run())
    return publisher.taken[0].value


WAYS: tuple[Callable[[bytes | None, Path], bytes], ...] = (proxied, sent_by_the_sdk, posted, as_a_span, logged)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_an_invented_model_and_a_user(way: Callable[..., bytes], tmp_path: Path, caplog: Any) -> None:
    """The model is unknown, its name beside it; the user is a hash, and the name is in no row and no log line."""
    caplog.set_level(logging.DEBUG)

    value = way(SECRET, tmp_path)
    rows = rows_of(LLM_REQUESTS.fields, native.decode(value, LLM_REQUESTS.fields))

    assert {(row["model"], row["model_requested"], row["user_hash"]) for row in rows} == {
        ("__unknown__", INVENTED, HASH)
    }
    assert USER.encode() not in value
    assert not [record for record in caplog.records if USER in str(vars(record))]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_by_default_users_are_not_kept(way: Callable[..., bytes], tmp_path: Path) -> None:
    """In no form, whoever sent them."""
    value = way(None, tmp_path)
    rows = rows_of(LLM_REQUESTS.fields, native.decode(value, LLM_REQUESTS.fields))

    assert {row["user_hash"] for row in rows} == {None}
    assert USER.encode() not in value


def test_a_model_s_name_that_is_no_label_is_kept_beside_it() -> None:
    """Bounded, whatever the answer."""
    value = proxied(None, Path(), "m" * (LABEL_BYTES_MAX + 1))
    (row,) = rows_of(LLM_REQUESTS.fields, native.decode(value, LLM_REQUESTS.fields))

    assert (row["model"], row["model_requested"]) == ("__unknown__", "m" * REQUESTED_CHARS_MAX)
