"""Capacity planning: from measured curves to engines and GPUs for a given traffic."""
