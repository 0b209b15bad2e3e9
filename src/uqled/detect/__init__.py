"""Predictions in, label errors out."""
