"""Wrong labels with a known truth: transition matrices of every kind, and labels flipped by them.

Rows are the true class, columns the given one. K classes, N samples, S [K,K] similarity scores.

    similarity_scores -> similarity_groups -> flip_probabilities    the paper's generator, in steps
    similarity_matrix, symmetric_matrix, pair_matrix,
        sparse_matrix, confusion_matrix, TransitionMatrix(...)      the kinds of noise, one type
    apply_noise, instance_noise                                     labels -> noisy labels, truth
    realised_matrix                                                 what the flips came to
"""

from uqled.noise.matrices import (
    apply_noise,
    confusion_matrix,
    flip_probabilities,
    instance_noise,
    pair_matrix,
    realised_matrix,
    similarity_groups,
    similarity_matrix,
    similarity_scores,
    sparse_matrix,
    symmetric_matrix,
)
from uqled.noise.transition import TransitionMatrix

__all__ = [
    "TransitionMatrix",
    "apply_noise",
    "confusion_matrix",
    "flip_probabilities",
    "instance_noise",
    "pair_matrix",
    "realised_matrix",
    "similarity_groups",
    "similarity_matrix",
    "similarity_scores",
    "sparse_matrix",
    "symmetric_matrix",
]
