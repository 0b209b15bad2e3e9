"""Speed of detection: the benchmark's page, limits of the instructions used, two versions."""
