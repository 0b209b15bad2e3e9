"""Detection in parts, measured: more than memory, on Ray, and how time grows."""
