"""The sections of docs/results.md, and of the page on batch norm."""
