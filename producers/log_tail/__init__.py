"""Log tail: reads JSON lines of any file as ``llm.requests``, for engines that cannot be changed."""
