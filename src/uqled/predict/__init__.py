"""Data and a model in, out-of-sample predictions on disk out."""
