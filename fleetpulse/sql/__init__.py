"""Named queries and percentiles as SQL, and the reader that runs them."""
