"""The paper's two-stage benchmark: noise, predictions, detection, retraining, comparison."""
