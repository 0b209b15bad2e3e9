"""Reads and writes files: untrusted files within limits, our own files atomically."""
