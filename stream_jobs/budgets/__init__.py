"""Budgets: what may be spent, by whom, when; what was spent of them and what will be."""
