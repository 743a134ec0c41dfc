"""ClientNames: what a client named, a model, a tenant and a user, as it stands in an event. Pure.

A client may send any name, and one that somebody made up must open no series. A name is confirmed when an engine
accepted a request that had it: an answer with 2xx, or one whose output had begun when the client went away. Until then

- where an engine rejected the request (``_REJECTED``; a fault of the client where no status is known), or the client
  went away before an answer, the event's model is ``__unknown__``, ``model_requested`` keeps the name, and the tenant
  is null;
- other ends say nothing of the name: a model is not unknown because its engine is down. ``UNPROVEN_MAX`` names may come
  with such ends alone, later ones are treated as made up.

A user's name is never in an event. With a secret it becomes ``user_hash``, the first 64 bits of HMAC-SHA256 under that
secret: whoever lacks it can try out no list of names. Without one it is dropped. No series has it.
"""

from __future__ import annotations

import hmac
from enum import Enum
from itertools import repeat
from typing import Any

from producers.requests.counted_once import PLUGIN
from producers.requests.tracker import MODEL_UNKNOWN

CONFIRMED_MAX = 4_096
"""Names of models kept, and as many of tenants. Beyond them none is added: later ones are judged by each request's own
answer."""
UNPROVEN_MAX = 128
"""Names of models that no engine confirmed or rejected, and as many of tenants."""
NAME_CHARS_MAX = 256
"""Longer names of models and tenants are not remembered: no label holds them. Longer names of users have no hash, lest
two become one."""
REQUESTED_CHARS_MAX = 128
"""Kept of a model's name in ``model_requested``."""
_REJECTED = frozenset({400, 401, 403, 404, 405, 413, 415, 422})
"""A fault of the client: who has no key may name what he likes. Not 408 and 429, which say that an engine is slow or
full."""
_HASH_HEX = 16

Row = dict[str, Any]


_FACTS = ("status", "http_status", "error_kind", "output_tokens", "ttft_us", "reported_by")


class _Answer(Enum):
    """What the end of a request says of the names in it."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    NONE = "none"


class _Names:
    """The names of one kind, as far as they are known."""

    __slots__ = ("_confirmed", "_unproven")

    def __init__(self) -> None:
        self._confirmed: set[str] = set()
        self._unproven: set[str] = set()

    def keep(self, name: str, answer: _Answer) -> bool:
        """Whether an event with this name keeps it."""
        if answer is _Answer.ACCEPTED:
            if len(name) <= NAME_CHARS_MAX and len(self._confirmed) < CONFIRMED_MAX:
                self._confirmed.add(name)
                self._unproven.discard(name)
            return True
        if name in self._confirmed:
            return True
        if answer is _Answer.REJECTED:
            return False
        if len(name) <= NAME_CHARS_MAX and len(self._unproven) < UNPROVEN_MAX:
            self._unproven.add(name)
        return name in self._unproven


class ClientNames:
    """The names of one proxy or agent. ``user_secret``: key of the users' hash; None: users are not kept."""

    __slots__ = ("_models", "_tenants", "_user_secret")

    def __init__(self, user_secret: bytes | None = None) -> None:
        self._models, self._tenants = _Names(), _Names()
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

    # Models and tenants

    def judge(self, row: Row) -> None:
        """Confirm the names of a finished row; or put ``__unknown__`` in place of its model and the name in
        ``model_requested``, and null in place of its tenant."""
        answer, model, tenant = _answer(*map(row.get, _FACTS)), row.get("model"), row.get("tenant")
        if not self._keep_model(model, answer):
            row["model"], row["model_requested"] = MODEL_UNKNOWN, shown(model)
        if not self._keep_tenant(tenant, answer):
            row["tenant"] = None

    def judge_lists(self, lists: dict[str, list[Any]]) -> dict[str, list[Any]]:
        """The same for many rows as one list a field, ``model`` among them: the lists to put in place of theirs."""
        models, tenants = lists["model"], lists.get("tenant")
        facts = [lists[name] if name in lists else repeat(None, len(models)) for name in _FACTS]
        answers = list(map(_answer, *facts))
        found: dict[str, list[Any]] = {}
        kept = list(map(self._keep_model, models, answers))
        if not all(kept):
            sent = lists.get("model_requested", [None] * len(models))
            found["model"] = [model if keep else MODEL_UNKNOWN for model, keep in zip(models, kept, strict=True)]
            found["model_requested"] = [
                each if keep else shown(model) for model, each, keep in zip(models, sent, kept, strict=True)
            ]
        if tenants is not None:
            kept = list(map(self._keep_tenant, tenants, answers))
            if not all(kept):
                found["tenant"] = [tenant if keep else None for tenant, keep in zip(tenants, kept, strict=True)]
        return found

    def _keep_model(self, model: object, answer: _Answer) -> bool:
        """Any type of value: clients send what they like, and what is no text is rejected later."""
        return type(model) is not str or model == MODEL_UNKNOWN or self._models.keep(model, answer)

    def _keep_tenant(self, tenant: object, answer: _Answer) -> bool:
        return type(tenant) is not str or self._tenants.keep(tenant, answer)


def _answer(
    status: object, http_status: object, error_kind: object, output_tokens: object, ttft_us: object, reporter: object
) -> _Answer:
    """Any type of value. An engine that reports a request itself has accepted it, whoever went away."""
    if type(http_status) is int:
        accepted, rejected = 200 <= http_status < 300, http_status in _REJECTED
    else:
        accepted, rejected = status == "ok", error_kind == "client"
    if status == "aborted":
        begun = reporter == PLUGIN or ttft_us is not None or (type(output_tokens) is int and output_tokens > 0)
        accepted, rejected = accepted or begun, True
    return _Answer.ACCEPTED if accepted else _Answer.REJECTED if rejected else _Answer.NONE


def shown(name: object) -> str:
    """A model's name as a client wrote it, cut and without what cannot be printed."""
    kept = str(name)[:REQUESTED_CHARS_MAX]
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in kept)
