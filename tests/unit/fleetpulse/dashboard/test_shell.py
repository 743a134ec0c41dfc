"""The shell of a page: what a gap in the network, and an error, do to what is shown."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from nicegui import Client

from fleetpulse.dashboard.data import Data
from fleetpulse.dashboard.shell import Shell
from fleetpulse.dashboard.users import OPERATOR, User
from fleetpulse.dashboard.view import Facts, PageSpec, Refresh, View
from fleetpulse.dashboard.zone import UTC_ZONE
from schemas.errors import FleetpulseError, UnavailableError
from tests.unit.fleetpulse.dashboard.idle_data import IdleData


class OnePage:
    """A page whose askings end as told: by ``error``, or once ``answered``."""

    def __init__(self) -> None:
        self.views: list[View] = []
        self.error: Exception | None = None
        self.answered = asyncio.Event()
        self.shown = 0

    def build(self, view: View) -> Refresh:
        self.views.append(view)
        return self.refresh

    async def refresh(self) -> None:
        if self.error is not None:
            raise self.error
        await self.answered.wait()
        self.shown += 1


async def opened(client: Client, one: OnePage) -> View:
    """The page in this browser."""
    user, spec = User("ada", OPERATOR), PageSpec("/x", "X", "home", "about x", one.build)
    with client:
        await Shell([spec], spec, cast(Data, IdleData()), Facts()).open(
            client, {}, lambda: user, dark=False, zone=UTC_ZONE
        )
    return one.views[0]


def dimmed(client: Client) -> bool:
    """Whether what is shown looks old."""
    return any("fp-stale" in element._classes for element in client.elements.values())


async def test_a_gap_in_the_network_ends_no_asking(client: Client) -> None:
    """A browser that comes back finds its answer; one that is gone for good asks no more."""
    one = OnePage()
    view = await opened(client, one)
    asking = view.again()
    for handler in client.disconnect_handlers:
        client.safe_invoke(handler)
    one.answered.set()
    await asking
    assert one.shown

    one.answered.clear()
    asking = view.again()
    await asyncio.sleep(0)
    for handler in client.delete_handlers:
        client.safe_invoke(handler)
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize(
    "error",
    [FleetpulseError("too much"), UnavailableError("away"), ValueError("defect")],
    ids=["final", "away", "defect"],
)
async def test_numbers_of_an_asking_before_are_dimmed_after_any_error(client: Client, error: Exception) -> None:
    """They may be of another range; the next answer is fresh again."""
    one = OnePage()
    one.answered.set()
    view = await opened(client, one)
    assert not dimmed(client)

    one.error = error
    await view.again()
    assert dimmed(client)

    one.error = None
    await view.again()
    assert not dimmed(client)
