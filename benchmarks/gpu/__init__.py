"""What the programs for a GPU share: models with random weights, loads, tables."""
