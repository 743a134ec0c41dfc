"""Reports of one request by several measurers: which one is the event, in every order of their coming."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleetpulse_track.handover import HEADER
from producers.receiver import once as module
from producers.receiver.once import EXPECTED_S, HELD_LONGEST_S, HELD_S, PLACE_BYTES, Once
from producers.requests.counted_once import ID_LENGTH_MAX
from tests.unit.producers.receiver import sent

PLUGIN = {"request_id": "chatcmpl-request-r", "reported_by": "plugin", "queue_us": 5}
SDK = {"request_id": "chatcmpl-request-r", "tenant": "t"}
Given = list[tuple[str, Any]]


def judged(once: Once, *rows: dict[str, Any], now_s: float = 0.0) -> tuple[list[bool], int]:
    """Each datagram is the number of its row."""
    return once.judge(rows, lambda at: b"%d" % at, now_s)


def test_the_sdk_takes_over_what_the_plug_in_reported() -> None:
    """In one slice or in two: one event, with the fields of both."""
    for apart in (False, True):
        once, row = Once(), dict(SDK)
        if apart:
            assert judged(once, PLUGIN) == ([False], 0)
            assert judged(once, row) == ([True], 1)
        else:
            assert judged(once, PLUGIN, row) == ([False, True], 1)

        assert row == {**SDK, "queue_us": 5}
        assert (once.held, once.due(None)) == (0, [])


def test_a_plug_in_that_comes_after_the_sdk_is_left_out() -> None:
    """Each of its choices."""
    once = Once()

    assert judged(once, dict(SDK)) == ([True], 0)
    assert judged(once, PLUGIN, PLUGIN | {"request_id": "1_chatcmpl-request-r"}) == ([False, False], 2)


def test_a_plug_in_alone_passes_when_it_has_waited() -> None:
    """Not a moment before; an SDK's report that comes later still is left out, and the next request of that id not."""
    once = Once()
    judged(once, PLUGIN, now_s=1.0)

    assert once.due(1.0 + HELD_S - 0.001) == []
    assert once.due(1.0 + HELD_S) == [b"0"]
    assert once.due(9.0) == []
    assert judged(once, dict(SDK)) == ([False], 1)
    assert judged(once, dict(SDK)) == ([True], 0)


def test_choices_without_a_whole_report_are_requests_of_their_own() -> None:
    """As the engine counts them."""
    once = Once()
    judged(once, PLUGIN, PLUGIN | {"request_id": "1_chatcmpl-request-r"})

    assert once.due(None) == [b"0", b"1"]


def test_reports_of_a_claimed_request_go_to_its_proxy() -> None:
    """Whoever made them, and whether they came before the claim or after it."""
    once, given = Once(), Given()
    once.claim("request-r", lambda name, row: given.append((name, row)))

    assert judged(once, PLUGIN, SDK) == ([False, False], 2)
    assert given == [("request-r", PLUGIN), ("request-r", SDK)]
    late: Given = []
    judged(once, PLUGIN | {"request_id": "chatcmpl-request-s"})
    once.claim("request-s", lambda name, row: late.append((name, row["request_id"])))
    assert late == [("request-s", "chatcmpl-request-s")]
    assert once.due(None) == []


@pytest.mark.parametrize("request_id", [None, "", 7, ["r"]])
def test_what_has_no_id_is_an_event(request_id: Any) -> None:
    """It can meet nothing."""
    assert judged(Once(), PLUGIN | {"request_id": request_id}, SDK | {"request_id": request_id}) == ([True, True], 0)


def test_requests_of_other_ids_are_apart() -> None:
    """Two clients of two applications."""
    assert judged(Once(), SDK | {"request_id": "chatcmpl-a-1"}, SDK | {"request_id": "chatcmpl-a-2"}) == (
        [True, True],
        0,
    )


def test_claims_of_a_proxy_that_died_are_forgotten() -> None:
    """It may not have reported them; those of others stay."""
    once, given = Once(), Given()

    def one(name: str, row: Any) -> None:
        given.append((name, row))

    def other(name: str, row: Any) -> None:
        given.append((name, row))

    once.claim("request-r", one)
    once.claim("request-s", other)
    once.forsake(one)

    assert judged(once, PLUGIN, PLUGIN | {"request_id": "chatcmpl-request-s"}) == ([False, False], 1)
    assert [name for name, _ in given] == ["request-s"]
    assert once.due(None) == [b"0"]


def test_long_reports_and_ids_meet_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is an event at once, and takes no room."""
    assert judged(Once(), PLUGIN | {"request_id": "r" * 300}) == ([True], 0)
    monkeypatch.setattr(module, "HELD_JSON_BYTES_MAX", 10)
    assert Once().judge([PLUGIN], lambda _: datagram_of(PLUGIN), 0.0) == ([True], 0)


def test_what_an_engine_puts_around_the_longest_id_does_not_matter() -> None:
    """It meets what is of the same request."""
    name = "resp_" + "a" * (ID_LENGTH_MAX - 5)
    once, given = Once(), Given()
    once.claim(name, lambda to, row: given.append((to, row)))

    assert judged(once, PLUGIN | {"request_id": f"2_{name}_11"}) == ([False], 1)
    assert [to for to, _ in given] == [name]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that cannot be held passes at once; the oldest id is forgotten."""
    monkeypatch.setattr(module, "HELD_MAX", 1)
    monkeypatch.setattr(module, "IDS_MAX", 1)
    once = Once()

    assert judged(once, PLUGIN, PLUGIN | {"request_id": "chatcmpl-request-s"}) == ([False, True], 0)
    once.due(None)
    judged(once, SDK | {"request_id": "request-a"}, SDK | {"request_id": "request-b"})
    assert judged(once, PLUGIN | {"request_id": "request-a"}, PLUGIN | {"request_id": "request-b"}) == (
        [False, False],
        1,
    )


@pytest.mark.parametrize(("bound", "below"), [("HELD_MAX", 0), ("HELD_JSON_BYTES_MAX", -1)])
def test_a_report_that_passes_at_once_is_counted_once_too(
    monkeypatch: pytest.MonkeyPatch, bound: str, below: int
) -> None:
    """The SDK's that comes later is left out; of a gateway's the plug-in's, too."""
    monkeypatch.setattr(module, bound, below)
    once = Once()

    assert judged(once, PLUGIN, SDK) == ([True, False], 1)
    assert judged(once, SDK) == ([True], 0)
    assert judged(
        once, GATEWAY | {"request_id": "chatcmpl-request-s"}, PLUGIN | {"request_id": "chatcmpl-request-s"}
    ) == (
        [True, False],
        1,
    )


def test_what_is_held_for_an_sdk_stays_held_when_it_says_so_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was forgotten in between that it had said so: all of it passes, when the first must."""
    monkeypatch.setattr(module, "IDS_MAX", 1)
    once = Once()
    once.expect(SDK, 0.0)
    judged(once, PLUGIN, now_s=1.0)
    once.expect({"request_id": "other"}, 2.0)
    judged(
        once,
        PLUGIN | {"request_id": "1_chatcmpl-request-r"},
        PLUGIN | {"request_id": "2_chatcmpl-request-r"},
        now_s=2.0,
    )

    once.expect(SDK, 2.5)

    assert once.held == 3
    assert once.due(1.0 + EXPECTED_S) == [b"0", b"0", b"1"]
    assert once.held == 0


GATEWAY = {"request_id": "chatcmpl-request-r", "reported_by": "gateway", "tenant": "team"}


def datagram_of(row: dict[str, Any], chunks: int = 1) -> bytes:
    """As the SDK sends it, with a time for each chunk."""
    client = sent.Recorded()
    client.hand_over(sent.finished([5] * chunks, **row))
    return client.sent[0]


def test_a_gateway_takes_over_what_its_engine_reported() -> None:
    """Each of its choices, in any order of their coming; the gateway's report is the event, with the fields of both."""
    second = PLUGIN | {"request_id": "1_chatcmpl-request-r"}
    for rows in ([PLUGIN, second, GATEWAY], [GATEWAY, PLUGIN, second], [PLUGIN, GATEWAY, second]):
        once = Once()
        for row in rows:
            assert once.judge([row], lambda _, row=row: datagram_of(row), 0.0) == ([False], 0)

        (passed,) = once.due(HELD_S)
        assert json.loads(passed[-HEADER.unpack_from(passed)[3] :]) == {"status": "ok", **GATEWAY, "queue_us": 5}
        assert passed[HEADER.size :][:8] == datagram_of(GATEWAY)[HEADER.size :][:8]
        assert (once.held, once.absorbed) == (0, 2)
        assert judged(once, PLUGIN) == ([False], 1)
        assert judged(once, dict(SDK)) == ([False], 1)


def test_the_sdk_takes_over_what_a_gateway_reported() -> None:
    """Where both are on one host: before its report or after."""
    once, row = Once(), dict(SDK)
    judged(once, PLUGIN, GATEWAY | {"engine_id": "e"})

    assert judged(once, row) == ([True], 2)
    assert row == {**SDK, "queue_us": 5, "engine_id": "e"}
    assert judged(once, GATEWAY) == ([False], 1)
    assert once.due(None) == []


def test_a_gateway_that_comes_after_its_engine_has_passed_is_left_out() -> None:
    """As an SDK would be; and an SDK after both of them."""
    once = Once()
    judged(once, PLUGIN)
    assert once.due(None) == [b"0"]

    assert judged(once, GATEWAY) == ([False], 1)
    assert judged(once, dict(SDK)) == ([False], 1)


def test_choices_that_end_one_after_another_wait_for_each_other() -> None:
    """The SDK reports them when the last has ended: each that comes holds those before it, up to a bound."""
    once, row = Once(), dict(SDK) | {"choices": 9}
    for number in range(4):
        judged(once, PLUGIN | {"request_id": f"{number}_chatcmpl-request-r"}, now_s=0.9 * number)
        judged(once, PLUGIN | {"request_id": f"chatcmpl-{number}"}, now_s=0.9 * number)
        assert len(once.due(0.9 * number)) == (1 if number > 1 else 0)
    assert judged(once, row, now_s=3.0) == ([True], 4)


@pytest.mark.parametrize("claimed", [False, True])
def test_choices_that_end_far_apart_below_a_gateway_are_the_engine_s_requests(claimed: bool) -> None:
    """It names them at the end only: one each, and its own report is left out. What a proxy claimed is one request."""
    once, given, passed = Once(), Given(), list[bytes]()
    if claimed:
        once.claim("request-r", lambda name, row: given.append((name, row)))
    for number in range(3):
        judged(once, PLUGIN | {"request_id": f"{number}_chatcmpl-request-r"}, now_s=2.0 * number)
        passed += once.due(2.0 * number + HELD_S)

    assert judged(once, GATEWAY | {"choices": 3}, now_s=6.0) == ([False], 1)
    assert (len(passed), len(given)) == ((0, 4) if claimed else (3, 0))
    assert once.due(None) == []


@pytest.mark.parametrize("said_at", [0, 1], ids=["before any has ended", "after the first has"])
def test_choices_that_end_long_after_each_other_wait_for_an_sdk_that_said_it_reads_them(said_at: int) -> None:
    """However far apart within the bound: the SDK's report is the event, and takes over all of theirs."""
    once, row = Once(), dict(SDK) | {"choices": 3}
    for number in range(3):
        if number == said_at:
            once.expect({"request_id": "chatcmpl-request-r"}, 60.0 * number)
        at_s = 60.0 * number - (0.5 if number < said_at else 0.0)
        assert judged(once, PLUGIN | {"request_id": f"{number}_chatcmpl-request-r"}, now_s=at_s) == ([False], 0)
        assert once.due(at_s) == []
        once.expect({"request_id": "chatcmpl-request-r"}, 60.0 * number)

    assert judged(once, row, now_s=500.0) == ([True], 3)
    assert (once.held, once.due(None)) == (0, [])
    assert judged(once, PLUGIN, now_s=501.0) == ([False], 1)


def test_choices_of_an_sdk_that_died_are_events_in_the_end() -> None:
    """All of them together; others are held no longer for them."""
    once = Once()
    once.expect(dict(SDK), 0.0)
    judged(once, PLUGIN, now_s=1.0)
    judged(
        once, PLUGIN | {"request_id": "1_chatcmpl-request-r"}, PLUGIN | {"request_id": "chatcmpl-request-s"}, now_s=9.0
    )

    assert once.due(9.0 + HELD_S) == [b"1"]
    assert once.due(1.0 + EXPECTED_S - 0.001) == []
    assert once.due(1.0 + EXPECTED_S) == [b"0", b"0"]
    assert judged(once, dict(SDK)) == ([False], 1)


def test_what_is_expected_is_bounded_and_never_of_a_request_that_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more the oldest are held no longer than others."""
    monkeypatch.setattr(module, "IDS_MAX", 1)
    once = Once()
    for name in ("request-a", "request-b", "", 7):
        once.expect({"request_id": name}, 0.0)
    judged(once, PLUGIN | {"request_id": "request-a"}, PLUGIN | {"request_id": "request-b"})
    assert once.due(HELD_S) == [b"0"]

    once.expect({"request_id": "request-a"}, 2.0)
    judged(once, PLUGIN | {"request_id": "request-a"}, now_s=3.0)
    assert once.due(3.0 + HELD_S) == [b"0"]


@pytest.mark.parametrize("short", ["chatcmpl-7", "42", "chatcmpl-1234567"])
def test_an_id_that_engines_give_again_is_not_remembered(short: str) -> None:
    """Later requests count; reports that come together are of one request, and two whole ones of one kind are two."""
    once, gateway, sdk = Once(), GATEWAY | {"request_id": short}, SDK | {"request_id": short}

    assert judged(once, gateway, dict(sdk), now_s=0.0) == ([False, True], 1)
    for at_s in (10.0, 20.0):
        assert judged(once, gateway, gateway, now_s=at_s) == ([False, False], 0)
        assert once.due(at_s + HELD_S) == [b"0", b"1"]
    once.expect(sdk, 30.0)
    assert judged(once, gateway, now_s=30.0) == ([False], 0)
    assert once.due(30.0 + HELD_S) == [b"0"]
    assert judged(once, dict(sdk), now_s=40.0) == ([True], 0)


def test_an_id_that_comes_back_again_and_again_is_not_held_for_ever() -> None:
    """Longer than the bound for none of its reports."""
    once, passed = Once(), list[bytes]()
    for tenth in range(100):
        judged(once, PLUGIN, now_s=tenth / 10)
        passed += once.due(tenth / 10)
        assert once.held <= 10 * HELD_LONGEST_S + 1

    assert len(passed) == 100 - once.held


def test_what_waits_for_an_sdk_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for minutes where that SDK died: more of it waits no longer than others do, until there is room."""
    monkeypatch.setattr(module, "HELD_MAX", 4)
    monkeypatch.setattr(module, "EXPECTED_MAX", 2)
    once = Once()
    for name in ("request-a", "request-b", "request-c", "request-d"):
        once.expect({"request_id": name}, 0.0)
        assert judged(once, PLUGIN | {"request_id": name}) == ([False], 0)
    assert judged(once, PLUGIN) == ([True], 0)

    assert once.due(HELD_S) == [b"0", b"0"]
    assert judged(once, PLUGIN | {"request_id": "request-e"}, PLUGIN | {"request_id": "request-f"}, now_s=2.0) == (
        [False, False],
        0,
    )
    once.expect({"request_id": "request-e"}, 2.0)
    assert once.due(2.0 + HELD_S) == [b"0", b"1"]
    assert judged(once, dict(SDK) | {"request_id": "request-a"}) == ([True], 1)
    once.expect({"request_id": "request-g"}, 4.0)
    judged(once, PLUGIN | {"request_id": "request-g"}, now_s=4.0)
    assert once.due(EXPECTED_S) == [b"0"]
    assert once.due(4.0 + EXPECTED_S) == [b"0"]
    assert (once.held, once._held_longer) == (0, 0)


def test_the_sdk_waits_for_a_claim_that_is_on_its_way() -> None:
    """While a proxy is connected: it claims a request up to 0.2 s after its begin, an answer once it has read it."""
    once, given = Once(), Given()
    once.proxies = 1

    assert judged(once, dict(SDK)) == ([False], 0)
    once.claim("request-r", lambda name, row: given.append((name, row)))

    assert given == [("request-r", SDK)]
    assert (once.held, once.due(None)) == (0, [])


def test_the_sdk_waits_for_proxies_that_are_about_to_connect() -> None:
    """To an agent that starts again: they claim what they claimed last; later there is none to wait for."""
    once, given = Once(), Given()
    once.await_proxies(10.0)

    assert judged(once, dict(SDK), now_s=10.4) == ([False], 0)
    once.claim("request-r", lambda name, row: given.append((name, row)))
    assert judged(once, dict(SDK) | {"request_id": "request-a"}, now_s=10.5) == ([False], 0)

    assert given == [("request-r", SDK)]
    assert once.due(10.5 + HELD_S) == [b"0"]
    assert judged(once, dict(SDK) | {"request_id": "request-b"}, now_s=10.0 + HELD_S) == ([True], 0)


def test_the_report_of_a_long_stream_waits_for_proxies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """In as many places as its times need; it passes at once where there are too few."""
    once, given = Once(), Given()
    once.await_proxies(10.0)
    long, row = datagram_of(SDK, chunks=1_100), dict(SDK)
    monkeypatch.setattr(module, "HELD_MAX", 5)
    assert 2 * PLACE_BYTES < len(long) <= 3 * PLACE_BYTES

    assert once.judge([row, SDK | {"request_id": "request-a"}], lambda _: long, 10.4) == ([False, True], 0)
    assert once.held == 3
    once.claim("request-r", lambda name, of_sdk: given.append((name, of_sdk)))
    assert once.judge([SDK | {"request_id": "request-b"}], lambda _: long, 10.4) == ([False], 0)

    assert given == [("request-r", SDK)]
    assert once.due(10.4 + HELD_S) == [long]
    assert once.held == 0


def test_an_sdk_that_nobody_claims_passes_when_it_has_waited() -> None:
    """With what others add to it, in any order of their coming; what comes later is left out, and the next request of
    that id is another event."""
    for rows in ([SDK, PLUGIN, GATEWAY], [PLUGIN, GATEWAY, SDK]):
        once = Once()
        once.proxies = 1
        for row in rows:
            assert once.judge([row], lambda _, row=row: datagram_of(row), 0.0) == ([False], 0)

        assert once.due(HELD_S - 0.001) == []
        (passed,) = once.due(HELD_S)
        assert json.loads(passed[-HEADER.unpack_from(passed)[3] :]) == {"status": "ok", **SDK, "queue_us": 5}
        assert (once.held, once.absorbed) == (0, 2)
        assert judged(once, PLUGIN, GATEWAY) == ([False, False], 2)
        assert judged(once, dict(SDK)) == ([False], 0)
        assert once.due(None) == [b"0"]


def test_an_sdk_that_said_it_reads_several_choices_waits_for_a_claim_too() -> None:
    """With all that was held for it, and no longer than other reports."""
    once = Once()
    once.proxies = 1
    once.expect(dict(SDK), 0.0)
    first, whole = PLUGIN, dict(SDK) | {"choices": 2}
    once.judge([first], lambda _: datagram_of(first), 1.0)
    once.judge([whole], lambda _: datagram_of(whole), 300.0)

    assert once.due(300.0 + HELD_S - 0.001) == []
    assert once.due(300.0 + HELD_S) == [datagram_of(whole)]
    assert (once.held, once.absorbed) == (0, 1)


def test_reports_of_an_sdk_that_repeats_an_id_are_all_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are held, and one that finds no room."""
    once = Once()
    once.proxies = 1
    judged(once, dict(SDK), dict(SDK))
    monkeypatch.setattr(module, "HELD_MAX", 2)

    assert judged(once, dict(SDK)) == ([True], 0)
    assert once.due(HELD_S) == [b"0", b"1"]


@pytest.mark.parametrize("put", [{"address": "b"}, {"address": None}, {"engine_id": None}], ids=str)
@pytest.mark.parametrize("report", [PLUGIN, GATEWAY], ids=["plug-in", "gateway"])
def test_what_the_agent_made_of_an_address_stays_in_a_report_that_is_held(
    put: dict[str, Any], report: dict[str, Any]
) -> None:
    """The client's word for it meant another network."""
    data = datagram_of(report | dict.fromkeys(put, "127.0.0.1:8000"))
    once = Once()
    assert once.judge([report | put], lambda _: data, 0.0) == ([False], 0)

    (passed,) = once.due(HELD_S)

    assert json.loads(passed[-HEADER.unpack_from(passed)[3] :]) == {"status": "ok", **report, **put}
