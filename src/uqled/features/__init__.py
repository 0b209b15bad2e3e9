"""From samples to vectors: columns of a table, words of a text, pretrained encoders."""
