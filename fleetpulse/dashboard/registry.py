"""All pages, in the order of the menu. One more page is one more line."""

from __future__ import annotations

from fleetpulse.dashboard.page import PageSpec
from fleetpulse.dashboard.pages import (
    alerts,
    cost,
    fleet,
    gpu,
    models,
    pipeline,
    request,
    requests,
    sql,
    tenants,
)

PAGES: tuple[PageSpec, ...] = (
    fleet.PAGE,
    models.PAGE,
    requests.PAGE,
    request.PAGE,
    gpu.PAGE,
    tenants.PAGE,
    cost.PAGE,
    alerts.PAGE,
    pipeline.PAGE,
    sql.PAGE,
)
