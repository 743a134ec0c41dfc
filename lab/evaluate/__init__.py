"""Does it find what is wrong, and nothing else: faults with known truth through the real steps, on a virtual clock."""
