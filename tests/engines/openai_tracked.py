"""pytest plug-in for the tests of the ``openai`` package: every client that they make is a tracked one.

Nothing but construction changes. It runs in an environment of its own; the SDK comes by PYTHONPATH.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import openai

from fleetpulse_track import handover
from fleetpulse_track.openai_client import become_tracked

reported = 0


class _Counting(handover.Client):
    def _sent(self, datagram: bytes) -> bool:
        global reported
        reported += 1
        return True


_CLIENT = _Counting("/nowhere")


def _tracked(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        become_tracked(self, _CLIENT, {"tenant": "t"})

    return made


for _kind in (openai.OpenAI, openai.AsyncOpenAI):
    _kind.__init__ = _tracked(_kind.__init__)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many requests were reported."""
    terminalreporter.write_line(f"requests reported: {reported}")
