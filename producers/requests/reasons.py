"""What could not be read of a request, as a closed set of names: counted, never an exception, never a wrong number."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BROKEN_JSON = "broken_json"
NO_OBJECT = "no_object"
UNKNOWN_SHAPE = "unknown_shape"
OVERSIZE_EVENT = "oversize_event"
OVERSIZE_BODY = "oversize_body"
UNDECODED = "undecoded"
USAGE_UNREADABLE = "usage_unreadable"
USAGE_CONTRADICTS = "usage_contradicts"
CLOCK_BACK = "clock_back"
AFTER_END = "after_end"
UNFINISHED = "unfinished"
TOO_MANY_CHUNKS = "too_many_chunks"
OUT_OF_RANGE = "out_of_range"
BACKGROUND = "background"
NEVER_READ = "never_read"
DEFECT = "defect"

REASONS: Mapping[str, str] = MappingProxyType(
    {
        BROKEN_JSON: "a chunk or body that is no JSON (cut, or broken UTF-8); its tokens, if any, were not counted",
        NO_OBJECT: "JSON, but no object",
        UNKNOWN_SHAPE: "an object that holds nothing that this kind of request is answered with",
        OVERSIZE_EVENT: "an event larger than the reader keeps; skipped up to the next",
        OVERSIZE_BODY: "a body larger than the reader keeps; its usage is unknown",
        UNDECODED: "an answer in an encoding that is not unpacked (br, zstd), damaged, or larger than is looked at",
        USAGE_UNREADABLE: "usage with a field that is no whole number of zero or more; that field is unknown",
        USAGE_CONTRADICTS: "usage that cannot be: parts above their whole, or no output though content came; "
        "the field is unknown, or counted from chunks",
        CLOCK_BACK: "a time before the one that preceded it; the gap counts as 0",
        AFTER_END: "something came after the request had ended; ignored",
        UNFINISHED: "a stream that closed in good order without a finish reason or a last event: an error",
        TOO_MANY_CHUNKS: "more chunks than a request keeps times of; values that need them all are unknown",
        OUT_OF_RANGE: "a value beyond what the event can hold (an hour, a hundred million tokens); it is unknown",
        BACKGROUND: "a response made in the background: its tokens come with the answer to a later request",
        NEVER_READ: "a response made in the background that was forgotten before anybody read it to its end",
        DEFECT: "reading it raised, which is a defect of fleetpulse; the log has it, and what was read before counts",
    }
)
