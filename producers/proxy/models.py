"""Names of models that engines confirmed, so that a name somebody made up opens no series. Pure.

A client may send any name. One is confirmed when a request that named it was answered with 2xx. Where an engine rejects
a request (400, 404, 422), and the name was never confirmed, the event's model is ``__unknown__``; ``model_sent`` keeps
the name for the log of requests. Other ends say nothing of the name: a model is not unknown because its engine is down.
"""

from __future__ import annotations

from typing import Any

from producers.requests.tracker import MODEL_UNKNOWN

CONFIRMED_MAX = 4_096
"""Names kept. Beyond them none is added: later ones are judged by each request's own answer."""
_REJECTED = frozenset({400, 404, 422})


class ConfirmedModels:
    """The names of one proxy."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: set[str] = set()

    def judge(self, row: dict[str, Any]) -> None:
        """Confirm the model of a finished row, or put ``__unknown__`` in its place and add ``model_sent``, which is no
        field of the event."""
        model, status = row["model"], row["http_status"]
        if status is not None and 200 <= status < 300:
            if len(self._names) < CONFIRMED_MAX:
                self._names.add(model)
        elif status in _REJECTED and model not in self._names and model != MODEL_UNKNOWN:
            row["model"], row["model_sent"] = MODEL_UNKNOWN, model
