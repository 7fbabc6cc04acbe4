"""A trained operator: predict, judge, correct, continue in time, save and load."""
