"""Domains that are no boxes, one class each, and finite-element solutions that share nothing with the library."""
