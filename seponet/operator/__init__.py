"""A trained operator: predict, judge, refine, continue in time, save and load."""
