"""Background: counts responses that an engine makes in the background, when their final state is read through the
proxy. Pure.

A request with ``background`` is answered before anything is generated. Its tokens are in the response that its client
reads later (``GET /v1/responses/{id}``, also as a stream, or ``POST .../cancel``): the first reading that finds it
final gives one row, of the tenant and the model that made it. Its latencies are unknown: polls do not say when it
ended. A response is known here from the answer to its request on, and forgotten with its row, or without one when
``RESPONSES_MAX`` others have come since or the proxy stops: none is counted twice. It may be read before the answer
that names it was looked at here: every reading is followed, and only at its end is it asked whether its response is
known.

Of several workers any may be asked for it. The one that passed its request on tells the others of it, and they tell
what they read of it: that one alone decides, by its own memory, whether it gives a row.

Source: OpenAI API reference, Responses and Background mode; vLLM ``entrypoints/openai/responses``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from producers.proxy.routes import read_path, response_read
from producers.proxy.watch import Watch
from producers.proxy.wire import Head
from producers.requests import reasons
from producers.requests.request_meta import RequestMeta
from producers.requests.tracker import Tracker
from runtime.proxy_config import ProxyConfig

RESPONSES_MAX = 10_000
"""That are made, or that nobody read to their end; of more the oldest are not counted."""
Row = dict[str, Any]
Message = dict[str, Any]
"""To the other workers: JSON, about a response that was ``made`` or ``read``."""
_UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(("ttft_us", "ttfo_us", "e2e_us", "tpot_us", "icl_max_us", "chunks")),
    "itl_bins": {},
}


class Background:
    """What one proxy, or one worker of it, knows of responses that are made in the background.

    ``unread`` counts what was not read, by ``reasons``, ``give`` takes each row with the upstream that it was read
    from, ``tell`` what the other workers are to ``hear``.
    """

    def __init__(
        self,
        unread: Callable[[Mapping[str, int]], object],
        give: Callable[[Row, int | None], object],
        tell: Callable[[Message], object],
    ) -> None:
        self._unread = unread
        self._give = give
        self._tell = tell
        self._made: dict[str, RequestMeta] = {}
        self._elsewhere: dict[str, RequestMeta] = {}  # by another worker

    def begins(self, tracker: Tracker) -> str | None:
        """Take an answered request: the id of the response that is made for it in the background, None where none
        is."""
        answer_id = tracker.answer_id
        if answer_id is None or reasons.BACKGROUND not in tracker.reasons:
            return None
        self._made[answer_id] = replace(tracker.meta, request_id=answer_id, streamed=False)
        if len(self._made) > RESPONSES_MAX:
            del self._made[next(iter(self._made))]
            self._unread({reasons.NEVER_READ: 1})
        self._tell({"made": asdict(self._made[answer_id])})
        return answer_id

    def reading(self, head: Head, began_s: float, limits: ProxyConfig) -> Watch | None:
        """How to follow the answer to this request; None for one that reads no response."""
        path = read_path(head.path)
        response_id = None if path is None else response_read(head.method, path)
        if response_id is None:
            return None
        meta = RequestMeta(response_id, "responses")
        return Watch(meta, int(began_s * 1e9), limits.watched_bytes_max, limits.decoded_bytes_max)

    def finds(self, tracker: Tracker) -> bool:
        """Whether the response that a reading followed is known, now that all that was answered before the reading
        began was taken: then ``tracker`` learns whose it is."""
        name = tracker.meta.request_id
        meta = self._made.get(name) or self._elsewhere.get(name)
        if meta is not None:
            tracker.learn(meta)
        return meta is not None

    def ended(self, tracker: Tracker, row: Row, where: int | None) -> None:
        """The reading of a response has ended with ``row``: give it, the first time that it is final."""
        final = tracker.whole and reasons.BACKGROUND not in tracker.reasons
        name = tracker.meta.request_id
        self._unread({why: times for why, times in tracker.reasons.items() if why != reasons.BACKGROUND})
        if not final or tracker.answer_id != name:
            return
        if self._made.pop(name, None) is not None:
            self._give({**row, **_UNKNOWN}, where)
        elif self._elsewhere.pop(name, None) is not None:
            self._tell({"read": {**row, **_UNKNOWN}, "where": where})

    def hear(self, message: Message) -> None:
        """What another worker tells."""
        if (made := message.get("made")) is not None:
            self._elsewhere[made["request_id"]] = RequestMeta(**made)
            if len(self._elsewhere) > RESPONSES_MAX:
                del self._elsewhere[next(iter(self._elsewhere))]
        elif self._made.pop(message["read"]["request_id"], None) is not None:
            self._give(message["read"], message["where"])

    def stop(self) -> None:
        """Nothing is read any more."""
        self._unread({reasons.NEVER_READ: len(self._made)} if self._made else {})
        self._made.clear()
