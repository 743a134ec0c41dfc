"""One event of a stream or one whole body, in the same shape whichever engine sent it."""

from __future__ import annotations

from typing import NamedTuple

CONTENT, REASONING = 1, 2
"""Kinds of a part: output proper (text, refusal, tool call), or reasoning alone."""


class Part(NamedTuple):
    """Content of one choice. ``tokens`` is 0 where the engine does not report their number; at least one token came."""

    choice: int
    kind: int
    tokens: int


class Usage(NamedTuple):
    """Tokens as the engine reported them; None where it did not. Cached are inside input, reasoning inside output."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None
    speculative: int | None = None
    """Draft tokens that were accepted."""


class EngineTimes(NamedTuple):
    """Phases in microseconds as the engine reported them; None where it did not."""

    queue_us: int | None = None
    prefill_us: int | None = None
    decode_us: int | None = None


class Chunk(NamedTuple):
    """One event of a stream, or a whole body. Empty: nothing of note, such as the role that opens a stream."""

    parts: tuple[Part, ...] = ()
    finish_reasons: tuple[str, ...] = ()
    """Of ``schemas.events.event_types.FINISH_REASONS``, one per choice that ended here."""
    finished: tuple[int, ...] = ()
    """The choices that ended here; empty: the first, where there is a reason."""
    tool_calls: tuple[tuple[int, int], ...] = ()
    """(choice, number) of each tool call that is named here; the same one may be named again."""
    usage: Usage | None = None
    usage_of: int | None = None
    """The choice that ``usage`` counts so far; None when it counts the whole request."""
    engine_times: EngineTimes | None = None
    error_kind: str | None = None
    """Of ``schemas.events.event_types.ERROR_KINDS``: an error inside the answer."""
    model: str | None = None
    done: bool = False
    """The last event of a stream."""
    choices: int | None = None
    """Choices of a whole body."""
    answer_id: str | None = None
    """The id that the engine itself gave to the answer."""
    reasons: tuple[str, ...] = ()
    """Of ``reasons.REASONS``: what could not be read."""


DONE = Chunk(done=True)
