"""Figures of windows for other systems: remote write of Prometheus."""
