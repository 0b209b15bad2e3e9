"""Arrays in files: `.npy`, Parquet and Zarr rows read block by block, many files as one array."""
