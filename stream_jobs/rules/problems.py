"""What is wrong with a file of rules."""

from __future__ import annotations

from stream_jobs.yaml_files.problems import FileError


class RulesError(FileError):
    """Rules cannot be used. ``problems`` are lines: ``file:line: rule NAME: what is wrong; what would be right``."""

    holds = "rules"
