"""Requests that applications of this host hand in: Unix datagrams of the SDK, JSON lines over loopback HTTP."""
