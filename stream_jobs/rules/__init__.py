"""Rules as data: what is looked at, by which labels, and what is out of the ordinary. Pure."""
