"""The review page: a server on this machine, its page, and the decisions made there."""
