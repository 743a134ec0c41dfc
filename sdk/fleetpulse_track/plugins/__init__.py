"""Thin modules on the SDK for engines and gateways that call back when a request has ended."""
