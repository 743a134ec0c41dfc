"""The edge: measure and send."""
