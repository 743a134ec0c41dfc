"""Silences: which alerts are not to notify, and until when. They come from commands and from the file of rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.contract.alert_commands import Command, plain
from schemas.contract.recurrence import in_force_until_ms
from schemas.errors import RejectedError


class Silences:
    """Commands by id, at most ``silences_max``: more are rejected, lest strangers end those that are in force. Those of
    the file are not kept in the state: another file counts from the restart on."""

    def __init__(self, silences: Iterable[Command], silences_max: int) -> None:
        self._of_rules = tuple(silences)
        self._max = silences_max
        self._commands: dict[str, Command] = {}

    @property
    def any(self) -> bool:
        """False when nothing can be silenced."""
        return bool(self._of_rules or self._commands)

    def take(self, command: Command) -> None:
        """Begin or end a silence. Raises ``RejectedError`` for one more than there may be."""
        begins = command.command == "mute"
        if begins and command.id not in self._commands and len(self._commands) >= self._max:
            raise RejectedError("too_many", f"{self._max} silences are in force; end one first")
        self._commands.pop(command.id, None)
        if begins:
            self._commands[command.id] = command

    def until_ms(self, labels: Mapping[str, str], now_ms: int) -> int | None:
        """When the last silence of these labels ends; None where none is in force."""
        silences = (*self._of_rules, *self._commands.values())
        ends = (_until_ms(one, now_ms) for one in silences if _matches(one, labels))
        return max((end for end in ends if end is not None), default=None)

    def forget(self, now_ms: int) -> None:
        """Drop those that are over."""
        self._commands = {name: one for name, one in self._commands.items() if one.until_ms > now_ms}

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        """As plain values. What comes again is apart: a job of 0.1.0 ends at a silence with fields that it does not
        know, and leaves out a key that it does not know."""
        again = [plain(one) for one in self._commands.values() if one.every]
        once = [plain(one) for one in self._commands.values() if not one.every]
        return {"mutes": once, "recurring": again} if again else {"mutes": once}

    def load(self, found: Mapping[str, Any]) -> None:
        self._commands = {one["id"]: Command(**one) for one in (*found["mutes"], *found.get("recurring", ()))}


def _matches(silence: Command, labels: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in silence.labels.items())


def _until_ms(silence: Command, now_ms: int) -> int | None:
    """When it ends that is in force now. What comes again depends on event time alone: a replay silences the same."""
    if not silence.from_ms <= now_ms < silence.until_ms:
        return None
    if not silence.every:
        return silence.until_ms
    end_ms = in_force_until_ms(silence.every, silence.zone, now_ms)
    return None if end_ms is None else min(end_ms, silence.until_ms)
