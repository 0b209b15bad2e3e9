"""What a reader sees of a benchmark: statistics, tables, figures and the page."""
