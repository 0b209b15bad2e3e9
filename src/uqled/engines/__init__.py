"""Where the work runs: an engine maps a given function over blocks and knows nothing of either."""
