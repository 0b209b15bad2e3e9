"""Training and predicting with Monte Carlo dropout, beside plain PyTorch."""
