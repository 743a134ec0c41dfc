"""Rules of the bench's workloads: what a profile promises is what its records hold."""

from __future__ import annotations

import pytest

from lab.bench.feed import Sender, message, messages
from lab.bench.workload import BULK, FLEET, SERIES, Profile, Workload
from schemas.codec.build import rows_of
from schemas.contract.admission import admit, read_headers
from schemas.contract.headers import CONTENT_TYPES, RecordHeaders
from schemas.contract.record import Record
from schemas.contract.verdicts import Verdict
from schemas.events.event_types import BY_TOPIC
from schemas.limits import DEFAULT_LIMITS

FROM_MS = 1_700_000_000_000
SMALL_FLEET = Profile("fleet", hosts=5, requests_per_record=40, gpus_per_host=8, seconds=2)
SMALL_BULK = Profile("bulk", hosts=2, requests_per_record=500, gpus_per_host=0, seconds=2)


def test_a_fleet_sends_one_record_of_each_kind_per_host_and_second() -> None:
    """Each second has, per host, one record of 8 GPU samples and one of 40 requests."""
    step = next(Workload(SMALL_FLEET, 1).steps(FROM_MS, 1))

    assert sorted((one.topic, one.host, one.block.rows) for one in step) == [
        *(("gpu.samples", host, 8) for host in range(5)),
        *(("llm.requests", host, 40) for host in range(5)),
    ]


def test_the_shipped_profiles_are_those_of_the_promise() -> None:
    """Bulk is 500 requests a record; fleet is 1,250 hosts with 8 GPUs and 40 requests a second."""
    assert (BULK.requests_per_record, BULK.gpus_per_host) == (500, 0)
    assert (FLEET.hosts, FLEET.requests_per_record, FLEET.gpus_per_host, FLEET.events_per_s) == (1_250, 40, 8, 60_000)
    assert 2 * SERIES.hosts * SERIES.gpus_per_host == 100_000


@pytest.mark.parametrize("profile", [SMALL_FLEET, SMALL_BULK], ids=lambda profile: profile.name)
def test_equal_seeds_give_equal_bytes_and_other_seeds_others(profile: Profile) -> None:
    """The events follow from the seed alone."""
    partitions = dict.fromkeys(profile.topics, 4)

    def sent(seed: int) -> list[bytes]:
        workload = Workload(profile, seed)
        return [one.value for one in messages(workload, FROM_MS, 1, CONTENT_TYPES[0], partitions, "salt")]

    assert sent(1) == sent(1)
    assert sent(1) != sent(2)


@pytest.mark.parametrize("profile", [SMALL_FLEET, SMALL_BULK], ids=lambda profile: profile.name)
def test_every_second_holds_its_own_times(profile: Profile) -> None:
    """Events of a second carry times inside it."""
    for second, step in enumerate(Workload(profile, 3).steps(FROM_MS, 2)):
        for one in step:
            times = [row["at_ms"] for row in rows_of(BY_TOPIC[one.topic].fields, one.block)]

            assert FROM_MS + 1_000 * second <= min(times) <= max(times) < FROM_MS + 1_000 * (second + 1)


@pytest.mark.parametrize("content_type", CONTENT_TYPES)
def test_all_events_are_admitted_and_equal_in_every_format(content_type: str) -> None:
    """A record of the bench is a good record, and the three formats hold the same events."""
    for one in next(Workload(SMALL_FLEET, 7).steps(FROM_MS, 1)):
        event = BY_TOPIC[one.topic]
        sent = message(one, content_type, Sender("salt"), 4)
        record = Record(one.topic, sent.partition, 0, FROM_MS + 1_000, sent.key, sent.value, sent.headers)
        heads = [head for head in read_headers(event, [record], DEFAULT_LIMITS) if isinstance(head, RecordHeaders)]
        admitted = admit(event, [record], heads, DEFAULT_LIMITS)

        assert admitted.rejects == []
        assert set(admitted.verdicts.tolist()) == {int(Verdict.ACCEPTED)}
        assert rows_of(event.fields, admitted.block) == rows_of(event.fields, one.block)


def test_a_host_numbers_its_records_without_gap_over_all_topics() -> None:
    """The identities of a host's records are (spool, boot 1, 0, 1, 2 ...)."""
    partitions = dict.fromkeys(SMALL_FLEET.topics, 4)
    seqs: dict[bytes, list[int]] = {}
    for one in messages(Workload(SMALL_FLEET, 1), FROM_MS, 3, CONTENT_TYPES[0], partitions, "salt"):
        headers = dict(one.headers)
        seqs.setdefault(headers["source"], []).append(int(headers["seq"]))

    assert list(seqs.values()) == [[0, 1, 2, 3, 4, 5]] * 5


def test_hosts_of_a_second_workload_are_others() -> None:
    """``first_host`` gives a workload hosts and GPUs of its own."""
    first = next(Workload(SMALL_FLEET, 1).steps(FROM_MS, 1))
    second = next(Workload(SMALL_FLEET, 1, first_host=5).steps(FROM_MS, 1))

    assert {one.name for one in first} & {one.name for one in second} == set()
