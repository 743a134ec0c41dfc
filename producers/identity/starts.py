"""Cold and warm: whether a request came before its engine had served one since it started. Pure."""

from __future__ import annotations

from schemas.contract.engines import Engine

ENGINES_MAX = 4_096
"""Beyond it the one not seen for longest is forgotten."""


class Starts:
    """Follows the first response of each engine since each of its starts, as one edge sees it."""

    def __init__(self) -> None:
        self._first: dict[bytes, tuple[int, int | None]] = {}  # the one not seen for longest comes first

    def of(self, engine: Engine, received_ms: int, ended_ms: int, *, served: bool) -> str | None:
        """``cold``: received before the first response since the engine's start had ended, as this edge or the engine's
        agent saw it; else ``warm``. None where the start is not known. ``served``: this request ended well."""
        if engine.started_ms is None:
            return None
        started_ms, first_ms = self._first.pop(engine.key, (None, None))
        if started_ms != engine.started_ms:
            first_ms = None
        known_ms = [at_ms for at_ms in (first_ms, engine.warm_ms) if at_ms is not None]
        cold = not known_ms or received_ms < min(known_ms)
        if first_ms is None and served:
            first_ms = ended_ms
        self._first[engine.key] = (engine.started_ms, first_ms)
        if len(self._first) > ENGINES_MAX:
            del self._first[next(iter(self._first))]
        return "cold" if cold else "warm"
