"""How good the method `auto` is: its sets of data, and what no method can do."""
