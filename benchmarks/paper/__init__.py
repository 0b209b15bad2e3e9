"""One paper's sentences and arithmetic, held against its own printed tables and our benchmark."""
