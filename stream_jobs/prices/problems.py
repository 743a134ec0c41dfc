"""What is wrong with a price file or a price map."""

from __future__ import annotations

from stream_jobs.yaml_files.problems import FileError


class PricesError(FileError):
    """Prices cannot be used. ``problems`` are lines: ``file:line: what is wrong; what would be right``."""

    holds = "prices"
