"""Shells of the long-running services: configuration in, one process each, until SIGTERM."""
