"""An S3-compatible server on this machine, for tests of addresses that are not local."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

BUCKET = "shards"


@contextmanager
def s3_address() -> Iterator[str]:
    """Start the server on a free port; the address of a bucket in it.

    Environment variables lead there, in this process and those that it starts: botocore reads
    AWS_ENDPOINT_URL itself. No real credentials are looked for.
    """
    s3fs = pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    with patch.dict(os.environ, environment):
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().makedirs(BUCKET, exist_ok=True)
        try:
            yield f"s3://{BUCKET}"
        finally:
            _close_sessions()
            s3fs.S3FileSystem.clear_instance_cache()
            server.stop()


def _close_sessions() -> None:
    """Close what the file systems of all threads keep open: collected later, each would warn."""
    from aiohttp import ClientSession
    from fsspec.asyn import sync

    for session in [one for one in gc.get_objects() if type(one) is ClientSession]:
        if not session.closed:
            sync(session._loop, session.close)
