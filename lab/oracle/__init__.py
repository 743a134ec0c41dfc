"""One answer on every face: raw rows counted by plain code, and what views, pages, boards and queries say of them."""
