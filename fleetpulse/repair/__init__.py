"""Fills a copy of the database from another."""
