"""The closed set of checks, one file for each family; `registry.py` lists them, `framework.py` asks them."""
