"""Recipes for the demo checkpoints that ship with the package: data, training, evaluation."""
