"""The review page over HTTP: its routes, access control, and limits on connections."""
