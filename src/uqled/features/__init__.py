"""From samples to vectors: columns of a table, words of a text, and pretrained encoders.

compute_features     [N,D] of images or texts by an encoder, computed once and kept on disk
encoders/            the encoders by name, one file each
find_neighbours      each sample's nearest samples
columns              features of texts and tables for scikit-learn classifiers
"""
