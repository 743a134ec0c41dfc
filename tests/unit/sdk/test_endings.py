"""How a request ended: the same words as the agent has."""

from __future__ import annotations

from fleetpulse_track.endings import by_code, ending
from producers.requests.endings import OK, Ending, verdict
from schemas.events.event_types import ERROR_KINDS, STATUSES


def test_a_status_ends_a_request_as_it_does_for_the_agent() -> None:
    """Both tables say the same of every HTTP status."""
    for code in range(400, 600):
        error = type("APIStatusError", (Exception,), {"status_code": code})()

        ended = ending(error)

        found = verdict(Ending(), code, None, None)
        said = (ended["status"], ended.get("error_kind"), ended["http_status"])
        assert said == (found.status, found.error_kind, code)


def test_only_words_of_the_closed_sets_are_said() -> None:
    """Whatever the code."""
    endings = [ending(None), *(by_code(code) for code in range(400, 600))]

    assert {each["status"] for each in endings} <= set(STATUSES)
    assert {each["error_kind"] for each in endings if "error_kind" in each} <= set(ERROR_KINDS)
    assert ending(None) == {"status": OK.status}


def test_a_task_that_was_cancelled_was_aborted() -> None:
    """By asyncio, by trio."""
    for name in ("CancelledError", "Cancelled"):
        assert ending(type(name, (BaseException,), {})()) == {"status": "aborted"}
