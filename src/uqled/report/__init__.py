"""What was found, as one HTML file and as pictures."""
