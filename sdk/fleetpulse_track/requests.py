"""One request from its beginning to its end, at the cost of one reading of the clock and one append per token.

A stream's times are kept as they are up to ``TIMES_MAX`` chunks. Beyond, neighbours of one choice are merged two by
two and their tokens add, so that a datagram never exceeds 64 KiB however long the stream: counts, ends and the longest
gap stay exact, gaps inside a merged pair become their mean, and the datagram is flagged.
"""

from __future__ import annotations

import contextlib
import json
import operator
import time
from array import array
from itertools import compress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from fleetpulse_track.endings import ending
from fleetpulse_track.handover import MARKED, MERGED, Client, Finished
from fleetpulse_track.handover import client as default_client

if TYPE_CHECKING:
    from typing import Self  # from Python 3.11

TIMES_MAX = 4_096
TOKENS_MASK, CHOICE_SHIFT, CHOICE_MAX, REASONING = 2**20 - 1, 20, 2**10 - 1, 1 << 30
"""A chunk's mark: its tokens (0: not known), its choice, and whether it is reasoning alone."""
JSON_BYTES_MAX = 8_000
TEXT_CHARS_MAX = 32
"""What is kept of each text when all together exceed ``JSON_BYTES_MAX``."""

TEXTS = (
    *("model", "model_version", "precision", "tenant", "slo_class", "engine_id", "placement_group"),
    *("status", "error_kind", "finish_reason", "start", "api", "tokens_from", "request_id", "trace_id"),
    "reported_by",
)
NUMBERS = (
    *("ttft_us", "ttfo_us", "tpot_us", "e2e_us", "queue_us", "prefill_us", "decode_us", "icl_max_us"),
    *("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "speculative_tokens"),
    *("tool_calls", "choices", "http_status"),
)
FIELDS = frozenset((*TEXTS, *NUMBERS, "address", "user"))
"""What a request may carry; other names are left out. Meanings and units: docs/reference/events.md. ``address`` is no
field there: host and port that the request was sent to, by which the agent finds the engine; nor is ``user``, whom the
caller named: the agent makes a keyed hash of it where it is set to, and drops it otherwise."""
_OF_PROMPT = ("input_tokens", "cached_tokens")
USER_CHARS_MAX = 256
"""Of a user's name; a longer one is left out."""


def _plain(value: Any) -> int | float | str:
    """The number or the text that a value of a type of its own (numpy's, say) stands for."""
    with contextlib.suppress(TypeError):
        return operator.index(value)
    return float(value) if hasattr(type(value), "__float__") else str(value)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode


class Request:
    """A request that begins now. Use ``with``, or call ``finish``; the first end counts."""

    __slots__ = (
        "_client",
        "_fields",
        "_generation",
        "_marks",
        "_merged",
        "_over",
        "_times",
        "_used",
        "begin_ns",
        "done",
    )

    def __init__(self, model: str | None = None, *, client: Client | None = None, **fields: Any) -> None:
        self._client = client or default_client()
        self._generation = self._client.generation
        self._fields = fields
        if model is not None:
            fields["model"] = model
        self._times: array[int] = array("Q")
        self._marks: array[int] | None = None
        self._merged = _UNMERGED
        self._over: set[int] | None = None  # choices that said why they ended
        self._used: dict[int, dict[str, int]] | None = None  # by choice: tokens so far
        self.done = False
        self.begin_ns = perf_counter_ns()

    @property
    def model(self) -> object:
        """What was asked for, where that is known."""
        return self._fields.get("model")

    @property
    def begun(self) -> bool:
        """Whether a chunk with content has come."""
        return bool(self._times)

    def token(self, tokens: int = 0, reasoning: bool = False, choice: int = 0) -> None:
        """A chunk with content has come, now. ``tokens`` in it, 0 where not known; ``reasoning``: not the answer
        yet; ``choice``: which of several."""
        self._times.append(perf_counter_ns())
        if tokens or reasoning or choice or self._marks is not None:
            self._mark(tokens, reasoning, choice)
        if len(self._times) >= TIMES_MAX:
            self._merge()

    def set(self, **fields: Any) -> None:
        """Say what is known of the request by now (``FIELDS``); None takes it back."""
        self._fields.update(fields)

    def over(self, choice: int, reason: str) -> None:
        """A choice is whole, for this reason: the last one is the request's. A request all of whose choices are was not
        aborted by a caller that leaves its stream."""
        self._fields["finish_reason"] = reason
        self._over = {choice, *(self._over or ())}

    def used(self, choice: int, counts: dict[str, int]) -> None:
        """The engine's counts of tokens for one choice, so far; what is not set for the request is known from them."""
        if counts and type(choice) is int and 0 <= choice <= CHOICE_MAX:
            self._used = self._used or {}
            self._used[choice] = counts

    def claim(self) -> None:
        """Its id is known. Where it has several choices, tell the agent now: a plug-in of the engine reports each as it
        ends, which may be long before the last does, and this request's report takes them over."""
        with contextlib.suppress(Exception):  # the caller's work goes on, whatever is wrong with ours
            name, several = self._fields.get("request_id"), (self._fields.get("choices") or 1) > 1
            if several and isinstance(name, str) and self._generation == self._client.generation:
                self._client.claim(json_of({"request_id": name}))

    def finish(self, error: BaseException | None = None) -> None:
        """The end. ``error``: what ended it, None when it went well; a ``status`` that was set overrides it."""
        end_ns = perf_counter_ns()
        try:
            if not self.done and self._generation == self._client.generation:
                self.done = True
                self._client.hand_over(self._finished(end_ns, error))
        except Exception:  # the caller's work goes on, whatever is wrong with ours
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.finish(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.finish(error)

    def _finished(self, end_ns: int, error: BaseException | None) -> Finished:
        ended = ending(error)
        if ended["status"] == "aborted" and self._is_whole():
            ended = ending(None)  # everything had come; that its caller left then is of no matter
        fields = {**ended, **self._summed(), **self._fields}
        flags, count = 0, len(self._times)
        times = self._times.tobytes()
        if self._marks is not None:
            flags, times = MARKED, times + self._marks.tobytes()
        if self._merged.gone:
            flags |= MERGED
            fields["icl_max_us"] = max(self._merged.widest_ns, _widest(self._times[self._merged.raw :])) // 1_000
        text = json_of(fields, self._client)
        at_ms = time.time_ns() // 1_000_000
        chunks = count + self._merged.gone
        return Finished(flags, count, chunks, at_ms, self.begin_ns, end_ns, times + text, len(text))

    def _is_whole(self) -> bool:
        if self._over is None:
            return False
        begun = {mark >> CHOICE_SHIFT & CHOICE_MAX for mark in self._marks or ()}
        return begun <= self._over and len(self._over) >= (self._fields.get("choices") or 1)

    def _summed(self) -> dict[str, Any]:
        """Tokens over all choices; those of the prompt are the same ones. What was generated is not known where a
        choice that began has no count."""
        if not self._used:
            return {}
        columns: dict[str, list[int]] = {}
        for counts in self._used.values():
            for name, value in counts.items():
                columns.setdefault(name, []).append(value)
        found: dict[str, Any] = {name: max(columns.pop(name)) for name in _OF_PROMPT if name in columns}
        unmarked = [0] * bool(self._times)  # chunks of the first choice alone
        begun = {mark >> CHOICE_SHIFT & CHOICE_MAX for mark in self._marks or unmarked}
        if self._used.keys() >= begun:
            found.update({name: sum(each) for name, each in columns.items() if len(each) == len(self._used)})
        return {**found, "tokens_from": "engine"}

    def _mark(self, tokens: int, reasoning: bool, choice: int) -> None:
        if self._marks is None:
            self._marks = array("I", bytes(4 * (len(self._times) - 1)))
        count = tokens if type(tokens) is int and 0 < tokens <= TOKENS_MASK else 0
        which = choice if type(choice) is int and 0 < choice <= CHOICE_MAX else 0
        self._marks.append(count | which << CHOICE_SHIFT | (REASONING if reasoning else 0))

    def _merge(self) -> None:
        """Drop every second time of each choice; its tokens count to the one after it. The first and the last time of
        each choice stay."""
        times, marks, merged = self._times, self._marks or array("I", bytes(4 * len(self._times))), self._merged
        self._keep_first_output()
        kept = [True] * len(times)
        alone: dict[int, int | None] = {}  # by choice: its time that waits for a partner; None: there is none
        for index, mark in enumerate(marks):
            choice = mark >> CHOICE_SHIFT & CHOICE_MAX
            before = alone.get(choice)
            if before is None:
                alone[choice] = index if choice in alone else None  # its first stays
                continue
            marks[index] = mark & ~TOKENS_MASK | min(_tokens(marks[before]) + _tokens(mark), TOKENS_MASK)
            kept[before], alone[choice] = False, None
        left, widest_ns = sum(kept), max(merged.widest_ns, _widest(times[merged.raw :]))
        self._merged = _Merged(merged.gone + len(times) - left, widest_ns, left - 1)
        self._times, self._marks = array("Q", compress(times, kept)), array("I", compress(marks, kept))

    def _keep_first_output(self) -> None:
        """While its time is still there; times before ``raw`` were looked at before."""
        if self._marks is None or "ttfo_us" in self._fields:
            return
        later = zip(self._times[self._merged.raw :], self._marks[self._merged.raw :])
        first_ns = next((at_ns for at_ns, mark in later if not mark & REASONING), None)
        if first_ns is not None:
            self._fields["ttfo_us"] = (first_ns - self.begin_ns) // 1_000


class _Merged(NamedTuple):
    """Chunks that no longer have a time, the widest gap among times before ``raw``, where unmerged times begin."""

    gone: int
    widest_ns: int
    raw: int


_UNMERGED = _Merged(0, 0, 0)


def request(model: str | None = None, **fields: Any) -> Request:
    """A request that begins now; ``fields`` as in ``Request.set``, ``client`` for another agent than the default."""
    return Request(model, **fields)


def report(*, client: Client | None = None, at_ms: int | None = None, **fields: Any) -> None:
    """Hand over a request that others measured: ``fields`` are all that is known. ``at_ms`` None: it ended now."""
    with contextlib.suppress(Exception):
        client = client or default_client()
        text = json_of({"status": "ok", **fields}, client)
        ended_ms = time.time_ns() // 1_000_000 if at_ms is None else at_ms
        client.hand_over(Finished(0, 0, 0, ended_ms, 0, 0, text, len(text)))


def json_of(fields: dict[str, Any], client: Client | None = None) -> bytes:
    """The known fields that are not None, as JSON of at most ``JSON_BYTES_MAX``; longer texts are cut. Values that JSON
    does not have (NaN, infinity, what has no text) are left out, and counted in the client's ``fields_left_out``."""
    known = {name: value for name, value in fields.items() if value is not None and name in FIELDS}
    try:
        text = _encode(known)
    except Exception:  # what a caller's own type raises when it is written as text may be anything
        texts = {name: each for name, value in known.items() if (each := _written(value)) is not None}
        if client is not None:
            client.fields_left_out += len(known) - len(texts)
        text = "{" + ",".join(f'"{name}":{each}' for name, each in texts.items()) + "}"
    whole = text.encode("utf-8", "replace")
    if len(whole) <= JSON_BYTES_MAX:
        return whole
    cut = {name: _cut(value) for name, value in json.loads(text).items() if name != "user"}
    return _encode(cut).encode("utf-8", "replace")


def _written(value: Any) -> str | None:
    """Its JSON. A type of the caller's own may not write a value a second time."""
    with contextlib.suppress(Exception):
        return _encode(value)
    return None


def _cut(value: Any) -> int | float | str:
    is_number = isinstance(value, (int, float)) and abs(value) < 2**63
    return value if is_number else str(value)[:TEXT_CHARS_MAX]


def user_in(body: Any) -> str | None:
    """The user that a request's body names: ``safety_identifier`` or ``user`` (OpenAI), ``metadata.user_id``
    (Anthropic)."""
    if not isinstance(body, dict):
        return None
    metadata = body.get("metadata")
    inside = metadata.get("user_id") if isinstance(metadata, dict) else None
    found = (body.get("safety_identifier"), body.get("user"), inside)
    return next((each for each in found if isinstance(each, str) and 0 < len(each) <= USER_CHARS_MAX), None)


def choices_in(api: object, body: Any) -> int | None:
    """How many choices a request's body asks for, over all of its prompts, where they are several; None else."""
    if api not in ("chat", "completions") or not isinstance(body, dict):
        return None
    number, prompts = body.get("n"), body.get("prompt")
    each = number if type(number) is int and number > 0 else 1
    if api == "completions" and isinstance(prompts, (list, tuple)) and prompts and not isinstance(prompts[0], int):
        each *= len(prompts)  # a list of numbers is one prompt, given as tokens
    return each if each > 1 else None


def _tokens(mark: int) -> int:
    return max(mark & TOKENS_MASK, 1)


def _widest(times: array[int]) -> int:
    return max((later - earlier for earlier, later in zip(times, times[1:])), default=0)
