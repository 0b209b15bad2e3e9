"""Labels and probabilities in, flags out: three sweeps over blocks of rows, in compiled loops."""
