"""Which partition of which job is meant, and what is said before it is reset; a real broker shows that it works."""

from __future__ import annotations

import pytest

from fleetpulse.services.reset_partition import Cost, Unread, job_of, place_of
from schemas.errors import ConfigError
from stream_jobs.runner.reset import Reset


@pytest.mark.parametrize(
    ("text", "place"), [("llm.requests:3", ("llm.requests", 3)), ("window.partials/0", ("window.partials", 0))]
)
def test_a_partition_is_named_as_logs_name_it(text: str, place: tuple[str, int]) -> None:
    """With a colon, as the option says, or with a stroke."""
    assert place_of(text) == place


@pytest.mark.parametrize("text", ["", "llm.requests", "llm.requests:", ":3", "llm.requests:x", "llm.requests:-1"])
def test_anything_else_is_refused(text: str) -> None:
    """Before anything is looked at."""
    with pytest.raises(ConfigError, match="must be TOPIC:N"):
        place_of(text)


def test_the_job_is_the_one_that_reads_the_topic() -> None:
    """Only where several do it has to be named."""
    assert job_of("llm.requests", None) == "windows"
    assert job_of("window.finals", None) == "alerts"
    assert job_of("window.partials", "costs") == "costs"
    with pytest.raises(ConfigError, match="finals, costs"):
        job_of("window.partials", None)
    with pytest.raises(ConfigError, match=r"must be a job that reads .*: windows"):
        job_of("llm.requests", "alerts")
    with pytest.raises(ConfigError, match="none does"):
        job_of("books", None)


def test_what_can_still_be_read_is_said_in_events_and_time() -> None:
    """Beside the offsets that are gone."""
    reset = Reset("llm.requests/3", "log_cut", 10, 10, True, 10, (20, 40), 30)

    lines = Cost("windows", reset, Unread(10, 2_500, 5_000, 65_000)).lines()

    assert reset.unread == (20, 30)
    held = "of them the log still holds 10 records with 2,500 events, appended within 60 s"
    assert lines[-1] == f"{held}: their windows stay without them"
