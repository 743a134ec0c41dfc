"""Requests out of logs: JSON lines of any file as ``llm.requests``, for engines that nobody can touch."""
