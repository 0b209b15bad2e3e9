"""The result of a detection as one HTML file, as figures, and in a notebook."""
