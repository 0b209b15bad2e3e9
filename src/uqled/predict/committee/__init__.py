"""A committee: several different models of the same samples, each out of fold, then combined.

heads          the members by name, and the fold that they see
neighbours     votes of the nearest samples, leave-one-out
discriminant   regularised discriminant analysis, leave-one-out in closed form
combining      calibration and weights of the members, fitted out of fold
"""
