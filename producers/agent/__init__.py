"""Host agent: isolated collectors that publish through one spool."""

from __future__ import annotations

from producers.agent.publishing import publish_rows

__all__ = ["publish_rows"]
