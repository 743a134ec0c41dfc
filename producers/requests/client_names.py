"""ClientNames: what a client named, a model and a user, as it stands in an event. Pure.

A client may send any model name, and a name that somebody made up must open no series. One is confirmed when a request
that named it was answered. Where an engine rejects a request (``_REJECTED``; a fault of the client where no status is
known), and the name was never confirmed, the event's model is ``__unknown__`` and ``model_requested`` keeps the name.
Other ends say nothing of the name: a model is not unknown because its engine is down.

A user's name is never in an event. With a secret it becomes ``user_hash``, the first 64 bits of HMAC-SHA256 under that
secret: whoever lacks it can try out no list of names. Without one it is dropped.
"""

from __future__ import annotations

import hmac
from typing import Any

from producers.requests.tracker import MODEL_UNKNOWN

CONFIRMED_MAX = 4_096
"""Model names kept. Beyond them none is added: later ones are judged by each request's own answer."""
NAME_CHARS_MAX = 256
"""Longer model names confirm nothing: no label holds them. Longer names of users have no hash, lest two become one."""
REQUESTED_CHARS_MAX = 128
"""Kept of a model's name in ``model_requested``."""
_REJECTED = frozenset({400, 401, 403, 404, 405, 413, 415, 422})
"""A fault of the client: who has no key may name what he likes. Not 408 and 429, which say that an engine is slow or
full."""
_HASH_HEX = 16

Row = dict[str, Any]


class ClientNames:
    """The names of one proxy or agent. ``user_secret``: key of the users' hash; None: users are not kept."""

    __slots__ = ("_confirmed", "_user_secret")

    def __init__(self, user_secret: bytes | None = None) -> None:
        self._confirmed: set[str] = set()
        self._user_secret = user_secret

    # Users

    def user_hash(self, user: object) -> str | None:
        """16 hex digits, the same for the same name and secret; None for what is no name, or without a secret."""
        if self._user_secret is None or not isinstance(user, str) or not 0 < len(user) <= NAME_CHARS_MAX:
            return None
        named = b"user\0" + user.encode("utf-8", "surrogatepass")  # no hash of an API key is the hash of a user
        return hmac.digest(self._user_secret, named, "sha256").hex()[:_HASH_HEX]

    def hash_user(self, row: Row) -> None:
        """Take ``user`` out of a row that a client sent, and put ``user_hash``, which is not its to send, in place."""
        user, sent = row.pop("user", None), row.pop("user_hash", None)
        if user is not None or sent is not None:
            row["user_hash"] = self.user_hash(user)

    # Models

    def judge(self, row: Row) -> None:
        """Confirm the model of a finished row, or put ``__unknown__`` in its place and the name in
        ``model_requested``."""
        model = row.get("model")
        if self._made_up(model, row.get("status"), row.get("http_status"), row.get("error_kind")):
            row["model"], row["model_requested"] = MODEL_UNKNOWN, shown(model)

    def judge_lists(self, lists: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """The same for many rows as one list a field, ``model`` among them: the lists to put in place of theirs."""
        models = lists["model"]
        nothing = [None] * len(models)
        facts = (lists.get(name, nothing) for name in ("status", "http_status", "error_kind"))
        judged = [self._made_up(*each) for each in zip(models, *facts, strict=True)]
        if not any(judged):
            return {}
        sent = lists.get("model_requested", nothing)
        return {
            "model": [MODEL_UNKNOWN if unknown else model for model, unknown in zip(models, judged, strict=True)],
            "model_requested": [
                shown(model) if unknown else each for model, each, unknown in zip(models, sent, judged, strict=True)
            ],
        }

    def _made_up(self, model: object, status: object, http_status: object, error_kind: object) -> bool:
        """Whether no engine knows this name, so far as is known. Any type of value: clients send what they like."""
        if type(model) is not str or model == MODEL_UNKNOWN:
            return False
        if type(http_status) is int:
            answered, rejected = 200 <= http_status < 300, http_status in _REJECTED
        else:
            answered, rejected = status == "ok", error_kind == "client"
        if answered and len(model) <= NAME_CHARS_MAX and len(self._confirmed) < CONFIRMED_MAX:
            self._confirmed.add(model)
        return rejected and model not in self._confirmed


def shown(name: object) -> str:
    """A model's name as a client wrote it, cut and without what cannot be printed."""
    kept = str(name)[:REQUESTED_CHARS_MAX]
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in kept)
