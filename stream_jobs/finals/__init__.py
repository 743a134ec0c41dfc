"""The finals job: partial rows of a window merge, and are emitted once the watermark of every source has passed it."""
