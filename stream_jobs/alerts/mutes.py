"""Mutes: which alerts nobody is to be woken for, and until when. They come from commands and from the file of rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from schemas.contract.alert_commands import Command
from schemas.errors import RejectedError


class Mutes:
    """Commands by id, at most ``mutes_max``: more are refused, lest strangers end those that are in force. Those of the
    file are not kept in the state: another file counts from the restart on."""

    def __init__(self, mutes: Iterable[Command], mutes_max: int) -> None:
        self._of_rules = tuple(mutes)
        self._max = mutes_max
        self._commands: dict[str, Command] = {}

    @property
    def any(self) -> bool:
        """False when nothing can be muted."""
        return bool(self._of_rules or self._commands)

    def take(self, command: Command) -> None:
        """Begin or end a mute. Raises ``RejectedError`` for one more than there may be."""
        if command.command == "mute" and command.id not in self._commands and len(self._commands) >= self._max:
            raise RejectedError("too_many", f"{self._max} mutes are in force; end one first")
        self._commands.pop(command.id, None)
        if command.command == "mute":
            self._commands[command.id] = command

    def until_ms(self, labels: Mapping[str, str], now_ms: int) -> int | None:
        """When the last mute for these labels ends; None where none is in force."""
        mutes = (*self._of_rules, *self._commands.values())
        return max((one.until_ms for one in mutes if _in_force(one, labels, now_ms)), default=None)

    def forget(self, now_ms: int) -> None:
        """Forget those that are over."""
        for name in [name for name, one in self._commands.items() if one.until_ms <= now_ms]:
            del self._commands[name]

    def dump(self) -> list[dict[str, Any]]:
        """As plain values."""
        return [asdict(one) for one in self._commands.values()]

    def load(self, found: Iterable[Mapping[str, Any]]) -> None:
        """Take over a dump."""
        self._commands = {one["id"]: Command(**one) for one in found}


def _in_force(mute: Command, labels: Mapping[str, str], now_ms: int) -> bool:
    wanted = mute.labels.items()
    return mute.from_ms <= now_ms < mute.until_ms and all(labels.get(name) == value for name, value in wanted)
