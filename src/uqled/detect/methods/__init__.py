"""The detection methods: `method.py` says what one is, `registry.py` lists them, one line each."""
