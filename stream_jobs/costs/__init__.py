"""Money: usage over time, the bill of an engine and minute, its split, goodput, budgets. Pure arithmetic."""
