"""The demo: a whole fleet on one machine for a minute, and then the proof that nothing was lost."""
