"""Measurements of the review page, run in `benchmarks/` as `python -m review_page.NAME`:

screens      every screen with 100,000 flags of 1,000 classes, beside 1,000 of 10
decisions    actions of a reviewer who knows the truth, one by one and in groups
sample_map   the map with up to a million points
promises     how often an offer to accept many at once keeps its promise
"""
