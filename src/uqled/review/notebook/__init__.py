"""Reviewing in a notebook: a widget whose messages go through the kernel, without a port."""
