"""All pages, in the order of the menu. One more page is one more line."""

from __future__ import annotations

from fleetpulse.dashboard.page import PageSpec
from fleetpulse.dashboard.pages import (
    alerts,
    cost,
    fleet,
    models,
    pipeline,
    sql,
    tenants,
)

PAGES: tuple[PageSpec, ...] = (
    fleet.PAGE,
    models.PAGE,
    tenants.PAGE,
    cost.PAGE,
    alerts.PAGE,
    pipeline.PAGE,
    sql.PAGE,
)
