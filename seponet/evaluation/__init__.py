"""Errors over functions that a model has not seen: test sets with reference solutions, metrics, reports."""
