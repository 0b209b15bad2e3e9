"""Where bytes lie: files from strangers are read with care, our own are written whole."""
