"""The database: what it holds (``declared``), the files that make it (``files``), how rows merge (``merging``)."""
