"""A gate for data: judge a run by how many of its labels are wrong, for people and for CI."""
