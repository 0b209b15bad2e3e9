"""Cleaned data sets and other tools' formats, made of a run's flags and decisions."""
