"""All pages, in the order of the menu. One more page is one more line."""

from __future__ import annotations

from fleetpulse.dashboard.page import PageSpec
from fleetpulse.dashboard.pages import (
    fleet,
)

PAGES: tuple[PageSpec, ...] = (fleet.PAGE,)
