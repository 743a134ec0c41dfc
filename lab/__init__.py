"""Proof beside the product: simulator, demo, benches, chaos, evaluation. A distribution of its own."""
