"""The agent of a host: collectors side by side, each isolated, into one spool."""

from __future__ import annotations

from producers.agent.publishing import publish_rows

__all__ = ["publish_rows"]
