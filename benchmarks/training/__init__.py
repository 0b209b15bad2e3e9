"""What training changes about Monte Carlo dropout: batch norm, and its length."""
