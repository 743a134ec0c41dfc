"""Proof beside the product: simulator, demo, benches, chaos, soak, evaluation. A distribution of its own."""
