"""A campaign against the library: kills, flipped bits and wrong calls. `make fuzz` runs it, `test_fuzz.py` a sample."""
