"""What is told of sampled records, and that telling changes nothing."""

from __future__ import annotations

import asyncio

from runtime.trace_context import LINKS_MAX, Span, TraceContext, batch_context, context_of
from schemas.contract.record import Record
from stream_jobs.runner.exactly_once import PartitionOwner
from stream_jobs.runner.job import Names, Source
from stream_jobs.runner.policy import PROMPT_POLICY
from stream_jobs.runner.spans import PartitionSpans
from tests.simulator.counting import OUT_TOPIC, POISON, CountingStep, encode
from tests.unit.recording_tracer import RecordingTracer
from tests.unit.stream_jobs.runner.memory_broker import BEGAN_MS, Scene

EDGE = "e1"


def context(seq: int) -> TraceContext:
    return batch_context(EDGE, 1, seq)


def a_record(seq: int, *, sampled: bool = True, poison: bool = False) -> Record:
    value, headers = encode("k", seq, EDGE, 1, seq, (1, 0))
    more = (context(seq).header,) if sampled else ()
    return Record("source", 0, seq, BEGAN_MS - 500, None, POISON if poison else value, (*headers, *more))


async def told(tracer: RecordingTracer | None, *fetches: list[Record]) -> list[Record]:
    """What a partition's owner wrote of these fetches, with a commit after each."""
    scene = Scene(CountingStep())
    names = Names("d", scene.step.name)
    owner = PartitionOwner(
        scene.step, Source("source", 0), scene.memory, names, PROMPT_POLICY, scene.clock, tracer=tracer
    )
    await owner.acquire()
    for records in fetches:
        for record in records:
            scene.log.add(record)
        await owner.feed(records)
        scene.clock.now_s += 1
        await owner.commit()
    return scene.memory.log(OUT_TOPIC).records


def named(tracer: RecordingTracer, name: str) -> list[Span]:
    return [span for span in tracer.spans if span.name == name]


def plain(records: list[Record]) -> list[Record]:
    """Without trace context."""
    return [r._replace(headers=tuple(one for one in r.headers if one[0] != "traceparent")) for r in records]


def test_outputs_are_those_without_tracing_but_for_one_header_at_the_end() -> None:
    """And where a commit holds no sampled record, they are the same to the last byte."""
    fetches = [a_record(0), a_record(1)], [a_record(2, sampled=False)], [a_record(3, poison=True), a_record(4)]
    tracer = RecordingTracer()

    without, followed = asyncio.run(told(None, *fetches)), asyncio.run(told(tracer, *fetches))
    unsampled = [[record._replace(headers=record.headers[:4]) for record in records] for records in fetches]

    assert plain(followed) == without
    assert asyncio.run(told(RecordingTracer(), *unsampled)) == asyncio.run(told(None, *unsampled))
    # Before the poisoned record what was folded is committed, which here is nothing; then it, then what came behind it.
    told_of = [context_of(record.headers) is not None for record in followed]
    assert told_of == [True, False, False, True, True]
    assert all(record.headers[-1][0] == "traceparent" for record in followed if context_of(record.headers))


def test_a_commit_of_one_sampled_record_goes_on_in_its_trace() -> None:
    """publish -> fold -> commit -> outputs: parents in one trace; each links to what it goes on from."""
    tracer = RecordingTracer()

    (output,) = asyncio.run(told(tracer, [a_record(0), a_record(1, sampled=False)]))

    fold, commit = tracer.spans
    about = {
        "messaging.system": "kafka",
        "messaging.destination.name": "source",
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": "d-counting",
    }
    assert fold == Span(
        "fold source",
        "consumer",
        fold.context,
        context(0),
        BEGAN_MS - 500,
        BEGAN_MS + 1_000,
        (context(0),),
        about
        | {"messaging.operation.name": "fold", "messaging.operation.type": "process", "messaging.kafka.offset": 0},
    )
    assert commit == Span(
        "commit source",
        "producer",
        commit.context,
        fold.context,
        BEGAN_MS + 1_000,
        BEGAN_MS + 1_000,
        (fold.context,),
        about
        | {
            "messaging.operation.name": "commit",
            "messaging.operation.type": "send",
            "messaging.batch.message_count": 2,
            "fleetpulse.offset_from": 0,
            "fleetpulse.offset_to": 2,
            "fleetpulse.outputs": 1,
            "fleetpulse.sampled_records": 1,
        },
    )
    assert context_of(output.headers) == commit.context
    assert {span.context.trace_id for span in tracer.spans} == {context(0).trace_id}
    assert len({context(0).span_id, *(span.context.span_id for span in tracer.spans)}) == 3


def test_a_commit_of_several_has_a_trace_of_its_own_that_links_to_all() -> None:
    """Each record's span stays in the trace of that record."""
    tracer = RecordingTracer()

    asyncio.run(told(tracer, [a_record(seq) for seq in range(3)]))

    folds, (commit,) = named(tracer, "fold source"), named(tracer, "commit source")
    assert [(fold.parent, fold.context.trace_id) for fold in folds] == [
        (context(seq), context(seq).trace_id) for seq in range(3)
    ]
    assert (commit.parent, commit.links) == (None, tuple(fold.context for fold in folds))
    assert commit.context.trace_id not in {fold.context.trace_id for fold in folds}


def test_of_too_many_sampled_records_the_first_are_told_and_the_rest_is_counted() -> None:
    """What a third party marks as sampled is bounded, commit by commit."""
    tracer = RecordingTracer()
    first, second = [a_record(seq) for seq in range(LINKS_MAX + 5)], [a_record(LINKS_MAX + 5)]

    asyncio.run(told(tracer, first, second))

    commits = named(tracer, "commit source")
    assert [len(commit.links) for commit in commits] == [LINKS_MAX, 1]
    assert [commit.attributes["fleetpulse.sampled_records"] for commit in commits if commit.attributes] == [
        LINKS_MAX + 5,
        1,
    ]
    assert len(named(tracer, "fold source")) == LINKS_MAX + 1
    assert tracer.dropped == 5


def test_a_commit_tells_of_what_it_holds_and_no_more() -> None:
    """What was fed behind its end waits for the next; without a sampled record there is nothing to tell."""
    spans = PartitionSpans(RecordingTracer(), "g", Source("source", 0))
    spans.fed([a_record(0, sampled=False), a_record(1), a_record(2)])

    first, second, third = (spans.commit(begin, begin + 1, BEGAN_MS) for begin in (0, 1, 2))

    assert first is None
    assert second is not None
    assert third is not None
    assert [[one.offset for one in commit.followed] for commit in (second, third)] == [[1], [2]]
    assert spans.commit(3, 9, BEGAN_MS) is None


def test_each_record_is_told_by_the_commit_that_holds_it() -> None:
    """A poisoned record splits its fetch over commits: spans follow the offsets."""
    tracer = RecordingTracer()

    asyncio.run(told(tracer, [a_record(0), a_record(1, poison=True), a_record(2)]))

    held = {
        span.attributes["fleetpulse.offset_to"]: [fold.trace_id for fold in span.links]
        for span in named(tracer, "commit source")
        if span.attributes
    }
    assert sorted(trace for traces in held.values() for trace in traces) == sorted(
        context(seq).trace_id for seq in range(3)
    )
    assert held[max(held)][-1] == context(2).trace_id


def test_a_commit_that_is_done_again_has_the_same_spans() -> None:
    """Ids are hashes of what they stand for: who takes over tells the same."""
    first, second = RecordingTracer(), RecordingTracer()

    for tracer in (first, second):
        asyncio.run(told(tracer, [a_record(0), a_record(1)]))

    assert first.spans == second.spans
