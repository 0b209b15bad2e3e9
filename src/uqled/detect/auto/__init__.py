"""The probability that each label is wrong, and what follows from it."""
