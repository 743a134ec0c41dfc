"""What things cost: effective-dated prices of our own machines, list prices of hosted models, exact arithmetic."""
