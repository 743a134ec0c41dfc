"""Disk: what a publisher does with its spool's files, one thing at a time, in a thread: no disk holds up the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from producers.publish.reconnect import finish
from producers.spool.frame import Spooled
from producers.spool.segment_log import Take
from producers.spool.spool import Spool

_log = logging.getLogger(__name__)


class Disk:
    """``turn`` is held while the spool is read or written."""

    def __init__(self, spool: Spool) -> None:
        self.turn = asyncio.Lock()
        self._spool = spool

    async def read(self, blocking: Callable[[], list[Spooled]], then: Callable[[list[Spooled]], None]) -> None:
        """Run what may block, and on the loop what takes note of its result, before anybody else has a turn."""
        found: list[Spooled] = []
        async with self.turn:
            await finish(lambda: found.extend(blocking()))
            then(found)

    async def sync(self) -> None:
        """Make what was written safe against a power cut."""
        async with self.turn:
            if (sync := self._spool.begin_sync()) is not None:
                await finish(sync.run)
                self._spool.finish_sync(sync)

    async def save(self) -> bool:
        """Write what is acknowledged; False when the disk does not take it."""
        async with self.turn:
            if (save := self._spool.begin_save()) is None:
                return True
            try:
                await finish(save.run)
            except OSError as error:
                _log.error("writing the spool's books failed, retrying", extra={"error": str(error)})
                return False
            self._spool.finish_save(save)
            return True

    async def take(self) -> list[Spooled]:
        """The next records, to be sent."""
        async with self.turn:
            if (take := self._spool.begin_take()) is None:
                return []
            await _run(take)
            return self._spool.finish_take(take)

    async def oldest_age_ms(self, now_ms: Callable[[], int]) -> int:
        """Of the records that are to be sent or on their way, also before the first of this start is sent. 0 where
        there is none, or the disk does not give it."""
        async with self.turn:
            records = list(self._spool.taken)
            if not records and (take := self._spool.begin_take()) is not None:
                take.records_max = 1
                with suppress(OSError):
                    await _run(take)
                records = take.records
        return now_ms() - records[0].at_ms if records else 0

    async def hold(self) -> bool:
        """Move what is undeliverable out of everybody's way; whether there was any, and the disk took it."""
        async with self.turn:
            if (hold := self._spool.begin_hold()) is None:
                return False
            await finish(hold.run)
            self._spool.finish_hold(hold)
        if hold.error is not None:
            _log.error("undeliverable records not kept apart, retrying", extra={"error": str(hold.error)})
        return hold.error is None


async def _run(take: Take) -> None:
    if take.blocks:
        await finish(take.run)
    else:
        take.run()
