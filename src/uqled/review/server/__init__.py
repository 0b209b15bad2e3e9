"""The review page over HTTP: its routes, who may call them, and how many at a time."""
