"""Framing rules: which heads are passed on, and what is written instead of them."""

from __future__ import annotations

import pytest

from producers.proxy import errors
from producers.proxy.wire import (
    Answer,
    Framing,
    Head,
    accept_encoding,
    answer_head,
    chunk,
    connection_lines,
    framing_of,
    last_chunk,
    may_stay,
    named_in,
    origin_form,
    refusal_of,
    request_head,
    without_upgrade,
)


def head(
    *headers: tuple[bytes, bytes], method: bytes = b"POST", target: bytes = b"/v1/a", version: str = "1.1"
) -> Head:
    made = Head(target=target, method=method, version=version)
    for name, value in headers:
        made.add(name, value)
    return made


def answer(*headers: tuple[bytes, bytes], status: int = 200, reason: bytes = b"OK") -> Answer:
    made = Answer(status=status, reason=reason)
    for name, value in headers:
        made.add(name, value)
    return made


HOST = (b"Host", b"p")
CHUNKED = (b"Transfer-Encoding", b"chunked")
LENGTH = (b"Content-Length", b"3")
GOOD = {
    "a POST": head(HOST, LENGTH),
    "chunks in capitals": head(HOST, (b"TRANSFER-ENCODING", b"Chunked")),
    "HTTP/1.0 without a host": head(version="1.0"),
    "a whole address": head(HOST, target=b"http://p:8000/v1/a?b"),
    "everything": head(HOST, method=b"OPTIONS", target=b"*"),
    "an expectation": head(HOST, (b"Expect", b"100-Continue")),
    "an offer that is no upgrade": head(HOST, (b"Upgrade", b"h2c")),
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD)
def test_good_heads_are_passed_on(given: Head) -> None:
    """Nothing is refused that every server reads alike."""
    assert refusal_of(given, upgrade=False) is None


BAD = {
    "a version of its own": (head(HOST, version="2.0"), 400),
    "an unknown method": (head(HOST, method=b"SOURCE"), 501),
    "a websocket": (head(HOST, (b"Upgrade", b"WebSocket")), 501),
    "no host": (head(), 400),
    "two hosts": (head(HOST, HOST), 400),
    "two lengths": (head(HOST, LENGTH, LENGTH), 400),
    "encoded chunks": (head(HOST, (b"Transfer-Encoding", b"gzip, chunked")), 400),
    "chunks in HTTP/1.0": (head(CHUNKED, version="1.0"), 400),
    "no path": (head(HOST, target=b"admin"), 400),
    "everything of a POST": (head(HOST, target=b"*"), 400),
    "another scheme": (head(HOST, target=b"ftp://a/b"), 400),
    "a scheme alone": (head(HOST, target=b"http://"), 400),
    "a control character": (head(HOST, target=b"/a\tb"), 400),
    "bytes above ASCII": (head(HOST, target=b"/\xff"), 400),
    "its key is for one hop": (head(HOST, (b"Connection", b"close, AUTHORIZATION")), 400),
    "its id is for one hop": (head(HOST, (b"Connection", b"close"), (b"Connection", b" x-request-id ")), 400),
    "another expectation": (head(HOST, (b"Expect", b"a miracle")), 417),
}


@pytest.mark.parametrize(("given", "status"), BAD.values(), ids=BAD)
def test_heads_that_are_read_differently_are_refused(given: Head, status: int) -> None:
    """Each with its status and a client's error."""
    refusal = refusal_of(given, upgrade=False)

    assert refusal is not None
    assert (refusal.status, refusal.kind) == (status, "invalid_request_error")


def test_a_tenant_s_header_is_for_both_hops() -> None:
    """Whichever it is here; a name that says nothing of the sender is for one alone."""
    given = head(HOST, (b"Connection", b"X-Tenant, X-Other"), (b"X-Tenant", b"t"))

    found = refusal_of(given, False, frozenset({b"x-tenant"}))

    assert found is not None
    assert (found.status, found.code) == (400, "credentials")
    assert refusal_of(given, False) is None


@pytest.mark.parametrize("name", [b"X-Request-ID", b"traceparent"])
def test_what_tells_a_request_from_others_is_for_both_hops(name: bytes) -> None:
    """The refusal says so: its key is in order."""
    found = refusal_of(head(HOST, (b"Connection", name)), False)

    assert found is not None
    assert (found.status, found.code, name.decode() in found.message) == (400, "connection", True)


def test_an_upgrade_is_refused_but_for_http_2_in_the_clear() -> None:
    """What the parser calls an upgrade: a tunnel is refused, h2c read again without its offer."""
    offer = head(HOST, (b"Connection", b"Upgrade"), (b"Upgrade", b"h2c"), (b"HTTP2-Settings", b"A"), LENGTH)

    assert refusal_of(head(HOST, (b"Upgrade", b"x")), upgrade=True) is not None
    assert refusal_of(offer, upgrade=True) is None
    assert may_stay(offer)
    assert without_upgrade(offer) == b"POST /v1/a HTTP/1.1\r\nHost: p\r\nContent-Length: 3\r\n\r\n"


def test_without_its_offer_a_head_says_the_rest_of_its_connection() -> None:
    """In one header, however many there were."""
    lines = [(b"Connection", b"close, Upgrade"), (b"connection", b"HTTP2-Settings, X-Mine")]
    offer = head(HOST, *lines, (b"Upgrade", b"h2c"), (b"HTTP2-Settings", b"A"), (b"X-Mine", b"1"))

    assert without_upgrade(offer) == (
        b"POST /v1/a HTTP/1.1\r\nHost: p\r\nX-Mine: 1\r\nConnection: close, X-Mine\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("given", "has_body", "length"),
    [
        (head(), False, 0),
        (head((b"Content-Length", b"00")), False, 0),
        (head(LENGTH), True, 3),
        (head(CHUNKED), True, None),
    ],
    ids=["none", "of no bytes", "of three", "in chunks"],
)
def test_a_body_is_announced(given: Head, has_body: bool, length: int | None) -> None:
    """By a length or by chunks."""
    assert (given.has_body, given.length) == (has_body, length)


def test_only_newer_clients_wait_for_a_word() -> None:
    """HTTP/1.0 knows no 100."""
    expect = (b"Expect", b"100-continue")

    assert head(expect).wants_continue
    assert not head(expect, version="1.0").wants_continue
    assert not head().wants_continue


@pytest.mark.parametrize(
    ("target", "path"),
    [(b"/a?b", b"/a?b"), (b"http://h/a?b", b"/a?b"), (b"HTTPS://h", b"/"), (b"*", b"*")],
)
def test_targets_become_paths(target: bytes, path: bytes) -> None:
    """Scheme and host are left out."""
    assert origin_form(target) == path


@pytest.mark.parametrize(
    "target",
    [b"/chat/completions", b"/chat/completions?a=/b", b"/chat/completions#a", b"http://p:1/chat/completions?a#b"],
)
def test_the_path_is_what_an_engine_reads_of_the_target(target: bytes) -> None:
    """Without scheme and host, query and fragment."""
    assert head(target=target).path == b"/chat/completions"


def test_a_request_head_is_rewritten() -> None:
    """This hop's headers stay here, the host is the upstream's, names come last."""
    given = head(
        HOST,
        (b"Connection", b"close, X-Mine"),
        (b"X-Mine", b"1"),
        (b"X-Kept", b"2"),
        CHUNKED,
        (b"Expect", b"100-continue"),
    )

    written = request_head(given, b"/p/a", b"e:1", 5, [(b"X-Request-ID", b"r")], frozenset())

    assert written == (b"POST /p/a HTTP/1.1\r\nHost: e:1\r\nX-Kept: 2\r\nContent-Length: 5\r\nX-Request-ID: r\r\n\r\n")


@pytest.mark.parametrize(
    ("given", "length", "line"),
    [
        (head(method=b"GET"), 0, b""),
        (head((b"Content-Length", b"0")), 0, b"Content-Length: 0\r\n"),
        (head(CHUNKED), 0, b"Content-Length: 0\r\n"),
        (head(CHUNKED), None, b"Transfer-Encoding: chunked\r\n"),
    ],
    ids=["no body", "an empty one", "empty chunks, collected", "chunks, passed on"],
)
def test_the_body_is_announced_to_the_upstream(given: Head, length: int | None, line: bytes) -> None:
    """As it will be sent, not as it came."""
    written = request_head(given, b"/", b"e", length, [], frozenset({b"accept-encoding"}))

    assert written == given.method + b" / HTTP/1.1\r\nHost: e\r\n" + line + b"\r\n"


FRAMINGS = {
    "a length goes on as it is": (answer(LENGTH), b"GET", "1.1", False, Framing.VERBATIM),
    "chunks go on as they are": (answer(CHUNKED), b"GET", "1.1", False, Framing.VERBATIM),
    "chunks are no use to HTTP/1.0": (answer(CHUNKED), b"GET", "1.0", False, Framing.UNTIL_CLOSE),
    "a length is": (answer(LENGTH), b"GET", "1.0", False, Framing.VERBATIM),
    "an end by closing becomes chunks": (answer(), b"GET", "1.1", False, Framing.CHUNKED),
    "or stays one": (answer(), b"GET", "1.0", False, Framing.UNTIL_CLOSE),
    "what is rewritten is framed again": (answer(LENGTH), b"POST", "1.1", True, Framing.CHUNKED),
    "HEAD has none": (answer(CHUNKED), b"HEAD", "1.1", False, Framing.NONE),
    "204 has none": (answer(status=204), b"GET", "1.1", False, Framing.NONE),
    "304 has none": (answer(LENGTH, status=304), b"GET", "1.1", False, Framing.NONE),
}


@pytest.mark.parametrize(("given", "method", "version", "rewritten", "framing"), FRAMINGS.values(), ids=FRAMINGS)
def test_framing(given: Answer, method: bytes, version: str, rewritten: bool, framing: Framing) -> None:
    """How a body goes on follows from how it came, the client, and whether bytes are taken out."""
    assert framing_of(given, method, version, rewritten) is framing


@pytest.mark.parametrize(
    ("framing", "lines"),
    [
        (Framing.VERBATIM, b"Content-Length: 3\r\nX: y\r\n"),
        (Framing.CHUNKED, b"X: y\r\nTransfer-Encoding: chunked\r\n"),
        (Framing.UNTIL_CLOSE, b"X: y\r\n"),
        (Framing.NONE, b"Content-Length: 3\r\nX: y\r\n"),
    ],
)
def test_an_answer_head_states_its_framing(framing: Framing, lines: bytes) -> None:
    """Headers of the hop are left out; what is said of the body is what is done."""
    given = answer(LENGTH, (b"X", b"y"), (b"Connection", b"Z"), (b"Z", b"1"))

    written = answer_head(given, framing, False, "1.1", [(b"I", b"1")])

    assert written == b"HTTP/1.1 200 OK\r\n" + lines + b"I: 1\r\nConnection: close\r\n\r\n"


def test_chunks_verbatim_are_announced() -> None:
    """The transfer encoding is this hop's header, and this hop has it too."""
    written = answer_head(answer(CHUNKED), Framing.VERBATIM, True, "1.1", [])

    assert written == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_what_is_said_of_the_connection() -> None:
    """Only what is not understood anyway."""
    assert connection_lines(True, "1.1") == []
    assert connection_lines(True, "1.0") == [b"Connection: keep-alive"]
    assert connection_lines(False, "1.0") == [b"Connection: close"]
    assert named_in(b"Close, X-A ,x-b") == {b"close", b"x-a", b"x-b"}


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (b"http://e:1/base/v1/models?a=http://e:1/", b"/v1/models?a=http://e:1/"),
        (b"HTTPS://E:1/base/v1/models", b"/v1/models"),
        (b"http://e:1/base/", b"/"),
        (b"http://e:1/other/v1/models", b"http://e:1/other/v1/models"),
        (b"http://e:1/based/v1", b"http://e:1/based/v1"),
        (b"http://e:12/base/v1", b"http://e:12/base/v1"),
        (b"http://e:1@x/base/v1", b"http://e:1@x/base/v1"),
        (b"http://e:1/base//x/v1", b"http://e:1/base//x/v1"),
        (b"http://e:1/base/\\x/v1", b"http://e:1/base/\\x/v1"),
        (b"/v1/models", b"/v1/models"),
        (b"ftp://e:1/base/v1", b"ftp://e:1/base/v1"),
    ],
)
def test_a_redirect_to_the_upstream_leads_to_the_proxy(location: bytes, expected: bytes) -> None:
    """To no other host, and to no path that a client takes for one."""
    given = Answer()
    for name, value in ((b"LOCATION", location), (b"X-Location", location)):
        given.add(name, value)

    given.stay_at(b"e:1", b"/base")

    assert given.headers == [(b"LOCATION", expected), (b"X-Location", location)]


def test_chunks() -> None:
    """Sizes are hexadecimal; trailers stand behind the last."""
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert last_chunk() == b"0\r\n\r\n"
    assert last_chunk([(b"A", b"b")]) == b"0\r\nA: b\r\n\r\n"


def test_a_transfer_encoding_other_than_chunked_is_not_readable() -> None:
    """Chunks alone are; named twice they are not."""
    assert answer(CHUNKED).readable
    assert not answer(CHUNKED, CHUNKED).readable
    assert answer((b"Content-Type", b"Text/Event-Stream; charset=utf-8")).is_stream()


def test_errors_have_the_shape_of_openai() -> None:
    """With a length, a word when to try again, and nothing behind the head for HEAD."""
    whole = errors.error_answer(errors.TENANT_BUSY, keep_alive=True)
    bare = errors.error_answer(errors.TENANT_BUSY, keep_alive=False, version="1.0", extra=[(b"I", b"1")], bare=True)
    body = (
        b'{"error":{"message":"too many of your requests are under way","type":"rate_limit_error",'
        b'"param":null,"code":"too_many_requests"}}'
    )

    assert errors.error_body(errors.TENANT_BUSY) == body
    assert whole == (
        b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"Retry-After: 1\r\n\r\n%b" % (len(body), body)
    )
    assert bare == (
        b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %d\r\nI: 1\r\n"
        b"Retry-After: 1\r\nConnection: close\r\n\r\n" % len(body)
    )


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"gzip, deflate, br, zstd", b"gzip, deflate"),
        (b"br;q=1.0, GZIP;q=0.5,*;q=0.1", b"GZIP;q=0.5"),
        (b"br", b"identity"),
        (b"", b"identity"),
    ],
)
def test_no_more_encodings_are_accepted_than_are_read(sent: bytes, expected: bytes) -> None:
    """Of those that the client offers, each with its weight; of a client that offers nothing, nothing."""
    known = frozenset({b"gzip", b"deflate"})

    assert accept_encoding(head(HOST, (b"accept-encoding", sent)), known) == [(b"Accept-Encoding", expected)]
    assert accept_encoding(head(HOST), known) == []
