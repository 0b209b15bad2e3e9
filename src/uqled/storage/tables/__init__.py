"""Columns of Arrow and Parquet files from strangers, measured before they are unpacked."""
