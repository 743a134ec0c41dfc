"""Tracker: folds one LLM request, from arrival to end, into exactly one terminal row.

A tracker takes what comes in order: ``status`` when headers were answered, ``data`` for each event of a stream (or
``chunk`` for one that was read elsewhere), ``body`` for a whole body, ``end`` at the end, which gives the row the first
time and None ever after. Times ``at_ns`` are of one monotonic clock; ``at_ms`` of ``end`` is the time since the epoch.
Nothing raises on what an engine sends: ``reasons`` counts what could not be read. Costs 2 to 4 us a chunk, parsing
included, and some 100 us at the end; memory 15 bytes a chunk.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import orjson

from producers.requests import reasons
from producers.requests.chunk import CONTENT, Chunk, EngineTimes, Part, Usage
from producers.requests.endings import WHOLE, Ending, How, gravest, stop_of, verdict
from producers.requests.openai_shapes import body_of, chunk_of, generated_id, kind_of_delta, read_document, text_of
from producers.requests.request_meta import OTHER, RequestMeta, is_label
from producers.requests.ttft_tpot_itl_single import Entries, RequestLatencies, request_latencies
from producers.requests.usage import contradictions, newer, usage_of, whole_usage
from schemas.events.event_types import HOUR_US

Row = dict[str, Any]

CHUNKS_MAX = 1 << 18
"""Chunks a request keeps times of (4 MiB); beyond, values that need them all are unknown."""
CALLS_MAX = 10_000
"""Distinct tool calls counted per request; beyond, their number is unknown."""
TOKENS_MAX = 100_000_000
MODEL_UNKNOWN = "__unknown__"
"""Stands where neither the client nor the engine named a model, or no engine confirmed it: the event may not lack one,
and a name that anybody may send opens no series."""
_RUNNING = frozenset({"prompt_tokens", "total_tokens", "completion_tokens", "completion_tokens_details"})
"""What vLLM's count so far holds."""
_GENERATES = frozenset({"chat", "completions", "messages", "responses"})
_SKIPPED = frozenset({reasons.OVERSIZE_EVENT, reasons.OVERSIZE_BODY, reasons.UNDECODED})
"""What was skipped may have been the end, so that nothing follows from its absence."""
_CALLS_TOOLS = frozenset({"chat", "responses", "messages"})


class Tracker:
    """The state of one open request. ``reasons`` counts what could not be read of it; ``answer_id`` is the id that the
    engine gave to a response, once it said one; ``whole``: the last event of its stream, or its body, was read."""

    __slots__ = (
        "_at_ns", "_choices", "_choices_reported", "_ended", "_engine_times", "_error_kind", "_finish", "_finished",
        "_http_status", "_kinds", "_model", "_of_choice", "_received_ns", "_tokens", "_tool_calls", "_unread",
        "_usage", "answer_id", "meta", "reasons", "whole",
    )  # fmt: skip

    def __init__(self, meta: RequestMeta, received_ns: int) -> None:
        self.meta = meta
        self._received_ns = received_ns
        self._at_ns = array("q")
        self._kinds = bytearray()
        self._tokens = array("i")
        self._choices = array("H")
        self._unread = 0  # chunks beyond the limit
        self._usage: dict[int | None, Usage] = {}  # last reported: of the request (None), of each choice
        self._of_choice: dict[int, int] = {}  # output tokens of each choice so far, where reported
        self._engine_times: EngineTimes | None = None
        self._finish: Counter[str] = Counter()
        self._finished: set[int] = set()  # choices; some engines say it twice
        self._tool_calls: set[tuple[int, int]] = set()
        self._choices_reported: int | None = None
        self._error_kind: str | None = None
        self._http_status: int | None = None
        self._model: str | None = meta.model
        self.whole = False
        self._ended = False
        self.answer_id: str | None = None
        self.reasons: Counter[str] = Counter()

    @property
    def ended(self) -> bool:
        """Whether the row was given."""
        return self._ended

    @property
    def streamed(self) -> bool:
        """Whether its client requested a stream."""
        return self.meta.streamed

    @property
    def chunks(self) -> int:
        """Chunks with content so far."""
        return len(self._at_ns) + self._unread

    def learn(self, meta: RequestMeta) -> None:
        """Take what is known of the request, where that comes only after its answer."""
        self.meta = meta
        self._model = meta.model or self._model

    def status(self, at_ns: int, http_status: int) -> None:
        """The status that the client was answered; the last one counts. ``at_ns`` is for the record's sake."""
        if self._open() and 100 <= http_status <= 599:
            self._http_status = http_status

    def data(self, at_ns: int, data: bytes) -> None:
        """One event of a stream, as ``SseReader`` gives it."""
        if self._ended:
            self._open()
            return
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            if data:
                self.chunk(at_ns, chunk_of(data))
            return
        if self.answer_id is None and type(document) is dict:
            self.answer_id = generated_id(document)
        if not self._plain(at_ns, document):
            if isinstance(document, dict):
                self.chunk(at_ns, read_document(document, whole=False))
            else:
                self.reasons[reasons.NO_OBJECT] += 1

    def _plain(self, at_ns: int, document: Any) -> bool:
        """Take the commonest chunk, text of the only choice and nothing else, the short way; False for any other."""
        try:
            (choice,) = document["choices"]
            delta = choice["delta"]
            if (
                choice["index"] != 0
                or choice["finish_reason"] is not None
                or choice.get("logprobs")
                or choice.get("token_ids")
                or delta.get("tool_calls")
                or delta.get("function_call")
                or "timings" in document
                or "error" in document
                or len(self._at_ns) >= CHUNKS_MAX
            ):
                return False
            content = delta.get("content")
            kind = CONTENT if content and type(content) is str else kind_of_delta(delta)
            reported = document.get("usage")
            usage = self._plain_usage(reported) if reported and kind is not None else None
            if kind is None or (reported and usage is None):
                return False
        except (KeyError, TypeError, ValueError, AttributeError):
            return False
        so_far = usage.output if usage is not None else None
        self._tokens.append(0 if so_far is None else self._since(0, so_far))
        self._at_ns.append(at_ns)
        self._kinds.append(kind)
        self._choices.append(0)
        if self._model is None:
            self._take_model(text_of(document.get("model")))
        return True

    def _plain_usage(self, reported: Any) -> Usage | None:
        """Keep a count that came with the text of the only choice; None where there is more to it."""
        before = self._usage.get(0)
        if reported.keys() <= _RUNNING and (before is None or before.cached is before.reasoning is None):
            prompt, output = reported.get("prompt_tokens"), reported.get("completion_tokens")
            details = reported.get("completion_tokens_details")
            if details is None and type(prompt) is type(output) is int and prompt >= 0 and output >= 0:
                counted = self._usage[0] = Usage(prompt, None, output)
                return counted
        usage, problems = usage_of(reported)
        if usage is None or problems or "prompt_time" in reported:
            return None
        self._usage[0] = usage if before is None else newer(before, usage)
        return usage

    def body(self, at_ns: int, body: bytes) -> None:
        """A whole body: the answer to a request that was not streamed, or an error."""
        if self._open():
            self.chunk(at_ns, body_of(body)._replace(parts=()))

    def note(self, reason: str) -> None:
        """Count something of ``reasons.REASONS`` that was met before it came here, such as a body too large to keep."""
        assert reason in reasons.REASONS
        self.reasons[reason] += 1

    def chunk(self, at_ns: int, chunk: Chunk) -> None:
        """One event of a stream that was read already."""
        if not self._open():
            return
        for reason in chunk.reasons:
            self.reasons[reason] += 1
        usage, so_far = chunk.usage, None
        if usage is not None:
            before = self._usage.get(chunk.usage_of)
            self._usage[chunk.usage_of] = usage if before is None else newer(before, usage)
            so_far = usage if chunk.usage_of is not None else None
        for part in chunk.parts:
            self._take_part(at_ns, part, so_far)
        if chunk.finish_reasons:
            self._finish.update(chunk.finish_reasons)
            self._finished.update(chunk.finished or (0,))
        if len(self._tool_calls) <= CALLS_MAX:
            self._tool_calls.update(chunk.tool_calls)
        self._engine_times = chunk.engine_times or self._engine_times
        self._error_kind = self._error_kind or chunk.error_kind
        if self._model is None:
            self._take_model(chunk.model)
        self.answer_id = self.answer_id or chunk.answer_id
        self._choices_reported = chunk.choices or self._choices_reported
        self.whole = self.whole or chunk.done

    def _take_model(self, name: str | None) -> None:
        """The name that the engine answers under. Where the client's own is no label, many engines repeat it."""
        if name is not None and is_label(name):
            self._model = name

    def _open(self) -> bool:
        if self._ended:
            self.reasons[reasons.AFTER_END] += 1
        return not self._ended

    def _take_part(self, at_ns: int, part: Part, so_far: Usage | None) -> None:
        if len(self._at_ns) >= CHUNKS_MAX:
            self._unread += 1
            return
        tokens = part.tokens
        if so_far is not None and so_far.output is not None:
            tokens = tokens or self._since(part.choice, so_far.output)
        self._at_ns.append(at_ns)
        self._kinds.append(part.kind)
        self._tokens.append(min(tokens, TOKENS_MAX))
        self._choices.append(part.choice)

    def _since(self, choice: int, output: int) -> int:
        """Tokens that a choice made since its last chunk; 0 (unknown) where that chunk had no count.

        A count that comes with the last chunk alone says nothing of how many of them that chunk holds, and one that no
        request can have says nothing at all.
        """
        if output > TOKENS_MAX:
            return 0
        before = self._of_choice.get(choice)
        if before is None:
            if choice in self._choices:
                return 0
            before = 0
        self._of_choice[choice] = output
        return max(output - before, 1)

    def end(self, at_ns: int, at_ms: int, ending: Ending = WHOLE) -> Row | None:
        """The one terminal row, as ``event_types.LLM_REQUESTS`` has it; None when it was given before."""
        if not self._open():
            return None
        self._ended = True
        usage, engine = self._judged_usage(), self._engine_times or EngineTimes()
        entries = Entries(self._at_ns, self._kinds, self._tokens, self._choices)
        found = request_latencies(entries, self._received_ns, at_ns, usage.output, usage.reasoning)
        if found.clock_back:
            self.reasons[reasons.CLOCK_BACK] += 1
        row: Row = dict(self.meta.labels)
        row |= self._identity(at_ms) | self._outcome(ending) | self._latencies(found)
        row |= self._amounts(found, usage)
        row |= {
            "queue_us": self._bounded(engine.queue_us, HOUR_US),
            "prefill_us": self._bounded(engine.prefill_us, HOUR_US),
            "decode_us": self._bounded(engine.decode_us, HOUR_US),
        }
        return row

    def _identity(self, at_ms: int) -> Row:
        meta = self.meta
        return {
            "at_ms": at_ms,
            "request_id": meta.request_id,
            "trace_id": meta.trace_id,
            "api": OTHER if reasons.BACKGROUND in self.reasons else meta.api,
            "model": self._model or MODEL_UNKNOWN,
            "tenant": meta.tenant,
            "slo_class": meta.slo_class,
        }

    def _outcome(self, ending: Ending) -> Row:
        whole = self.whole or len(self._finished) >= (self.meta.choices or 1)
        if ending.how in (How.CLIENT_GONE, How.ENGINE_LOST) and whole:
            ending = WHOLE  # everything had come; who closed the connection then is of no matter
        answers = (self._http_status or 200) < 300 and self._error_kind is None
        generates = self.meta.streamed and self.meta.api in _GENERATES
        skipped = not self.reasons.keys().isdisjoint(_SKIPPED)
        if ending.how is How.COMPLETE and generates and answers and not (whole or skipped):
            self.reasons[reasons.UNFINISHED] += 1
            ending = Ending(How.ENGINE_LOST, ending.error_kind)
        finish_reason = gravest(list(self._finish))
        status, error_kind = verdict(ending, self._http_status, self._error_kind, finish_reason)
        if status == "rejected" and self.chunks:
            status = "error"  # what had begun was not rejected
        return {
            "http_status": self._http_status,
            "status": status,
            "error_kind": error_kind,
            "finish_reason": finish_reason or stop_of(status, error_kind),
        }

    def _latencies(self, found: RequestLatencies) -> Row:
        """Values that need every chunk are unknown where some were not kept."""
        kept = self._unread == 0
        return {
            "ttft_us": self._bounded(found.ttft_us, HOUR_US),
            "ttfo_us": self._bounded(found.ttfo_us, HOUR_US),
            "e2e_us": self._bounded(found.e2e_us, HOUR_US),
            "tpot_us": self._bounded(found.tpot_us, HOUR_US) if kept else None,
            "icl_max_us": self._bounded(found.icl_max_us, HOUR_US) if kept else None,
            "itl_bins": found.itl_bins if kept else {},
            "chunks": self.chunks or None,
        }

    def _amounts(self, found: RequestLatencies, usage: Usage) -> Row:
        if found.usage_contradicts:
            self.reasons[reasons.USAGE_CONTRADICTS] += 1
            usage = usage._replace(output=None)
        reported = usage.output if usage.output is not None else usage.input
        output, reasoning, source = usage.output, usage.reasoning, None if reported is None else "engine"
        if output is None and self.chunks:
            source, kept = "counted", self._unread == 0
            output = self._bounded(found.counted_tokens, TOKENS_MAX) if kept else None
            if reasoning is None and kept:
                reasoning = self._bounded(found.counted_reasoning, TOKENS_MAX)
        read = self.chunks > 0 or self.whole
        return {
            "input_tokens": usage.input,
            "cached_tokens": usage.cached,
            "output_tokens": output,
            "reasoning_tokens": reasoning,
            "speculative_tokens": usage.speculative,
            "tokens_from": source,
            "choices": self.meta.choices or self._choices_reported or len(set(self._choices)) or None,
            "tool_calls": self._bounded(len(self._tool_calls), CALLS_MAX)
            if read and self.meta.api in _CALLS_TOOLS
            else None,
        }

    def _judged_usage(self) -> Usage:
        """The usage without what cannot be: parts above their whole, or amounts no event can hold."""
        meta = self.meta
        several = meta.choices is not None and meta.prompts > 1
        choices_each = meta.choices // meta.prompts if several and meta.choices else None
        usage = whole_usage(self._usage, choices_each, self._choices)
        fitting = usage._replace(**{name: self._bounded(value, TOKENS_MAX) for name, value in usage._asdict().items()})
        wrong = contradictions(fitting)
        if wrong:
            self.reasons[reasons.USAGE_CONTRADICTS] += 1
        return fitting._replace(**dict.fromkeys(wrong))

    def _bounded(self, value: int | None, high: int) -> int | None:
        if value is None or value <= high:
            return value
        self.reasons[reasons.OUT_OF_RANGE] += 1
        return None
