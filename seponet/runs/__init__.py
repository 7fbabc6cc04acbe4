"""Runs from end to end: recipes, configurations, run folders, training with a report."""
