"""`uqled.open_review(run)`: open a run, serve its review page on this machine, open the browser."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from uqled.data.dataset import Dataset
from uqled.data.reopening import relocate_source
from uqled.detect.auto.operating_point import OperatingPoint, make_operating_point
from uqled.detect.find import find_errors_in_run
from uqled.detect.request import POINT_OPTIONS
from uqled.errors import InputError, MissingInputError
from uqled.limits import get_limit
from uqled.report.samples import SampleSource, open_sample_source
from uqled.review.decisions import Decisions
from uqled.review.reviewers import get_user
from uqled.review.session import ReviewSession
from uqled.storage.run import Predictions, Run

_LOOPBACK = "127.0.0.1"
_PORT = 8790  # usually the same, so that the browser remembers the reviewer's name
_START_SECONDS = 30.0  # seconds
_FILE_SECONDS = 120.0  # seconds in which a browser has read the file that redirects to the page
# Accepted in one go: so few that a connection which makes room for later ones was heard before.
_BACKLOG = 16
_QUEUE = 1024  # of connections that wait to be accepted; a longer one than the system's is cut


def print_address(address: str) -> None:
    """Say where the page is."""
    print(f"Reviewing at {address}\nStop with Ctrl+C: decisions are saved.", flush=True)


def open_review(
    run: Run | Predictions | Path | str,
    *,
    browser: bool = True,
    announce: Callable[[str], None] = print_address,
    **options: Any,
) -> None:
    """Serve the review page of a run, until Ctrl+C.

    Every decision is stored in the run's `decisions.sqlite` before the page confirms it.

    Parameters
    ----------
    run
        A finished run, or its folder.
    browser
        Open the page in the browser.
    announce
        Called with the address of the page when it is ready. Default: print it.
    data
        The samples, if they did not come from files; or the folder that they were moved to.
    method
        The method whose flags are listed first; the page offers every method.
    reviewer
        The name that decisions are stored under; the page can change it. Default: your user name.
    host
        The address to listen on. Any address other than this machine's own (the default) lets
        others open the page if they know its address.
    port
        The port to listen on. Default: 8790, or a free one if that is taken.
    """
    with serve_review(run, **options) as address, suppress(KeyboardInterrupt):
        announce(address)
        with _open_browser(address) if browser else nullcontext():
            while True:
                time.sleep(3600)


@contextmanager
def serve_review(
    run: Run | Predictions | Path | str,
    *,
    data: Dataset | Path | str | None = None,
    method: str | None = None,
    reviewer: str | None = None,
    host: str = _LOOPBACK,
    port: int | None = None,
) -> Iterator[str]:
    """The page's address, served by a thread while the block runs; options as for `open_review`."""
    try:
        import uvicorn

        from uqled.review.server.application import make_application
        from uqled.review.server.connections import watch_connections
        from uqled.review.server.guard import Guard, new_token
    except ImportError as error:
        raise MissingInputError(
            "review", f"needs {error.name}", "Install it: pip install 'uqled[review]'"
        ) from error

    predictions = _read_predictions(run)
    errors = find_errors_in_run(predictions, headline=method)
    with Decisions.of(predictions) as decisions, _listen(host, port) as listener:
        session = ReviewSession(
            predictions,
            errors,
            decisions,
            _open_samples(predictions, data),
            reviewer=reviewer or get_user(),
            point=_read_point(predictions),
        )
        token = new_token()
        app = Guard(make_application(session), token, host)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                http=watch_connections(get_limit("connections")),
                backlog=_BACKLOG,
                access_log=False,  # the log would contain the token
                log_level="error",  # logs our own errors; bad requests of others are no news
                server_header=False,
                ws="none",
                lifespan="off",
                timeout_graceful_shutdown=5,
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        until = time.monotonic() + _START_SECONDS
        while not server.started:
            if not thread.is_alive() or time.monotonic() > until:
                raise InputError("host", f"{host!r} cannot be served", "Choose another one")
            time.sleep(0.01)
        listener.listen(_QUEUE)
        name = f"[{host}]" if ":" in host else host
        try:
            yield f"http://{name}:{listener.getsockname()[1]}/{token}/"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _open_browser(address: str) -> Iterator[None]:
    """Open the browser by way of a file that nobody else can read, as they can a command line."""
    handle, name = tempfile.mkstemp(prefix="uqled-review-", suffix=".html")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(
            '<!doctype html><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={address}"><title>Review</title>'
            f'<a href="{address}">Review</a>'
        )
    path = Path(name)
    # Now, not at the end: a killed server would leave it behind.
    timer = threading.Timer(_FILE_SECONDS, path.unlink, kwargs={"missing_ok": True})
    timer.daemon = True
    timer.start()
    try:
        threading.Thread(target=webbrowser.open, args=(path.as_uri(),), daemon=True).start()
        yield
    finally:
        timer.cancel()
        path.unlink(missing_ok=True)


def _read_predictions(run: Run | Predictions | Path | str) -> Predictions:
    if isinstance(run, Predictions):
        return run
    return (run if isinstance(run, Run) else Run.open(run)).predictions()


def _open_samples(
    predictions: Predictions, data: Dataset | Path | str | None
) -> SampleSource | None:
    """The samples to show: those passed, or those of the run's files; None where there are none."""
    if isinstance(data, Dataset):
        if data.ids.tolist() != predictions.ids:
            raise InputError(
                "data",
                "holds other samples than the run",
                "Pass the data that the run was made from",
            )
        return SampleSource(data)
    return open_sample_source(relocate_source(predictions, data))


def _read_point(predictions: Predictions) -> OperatingPoint | None:
    """The operating point of the run's last detection."""
    options = Run.open(predictions.path).detection()[1]
    return make_operating_point(
        **{name: options[name] for name in POINT_OPTIONS if name in options}
    )


def _listen(host: str, port: int | None) -> socket.socket:
    if port is None:
        with suppress(InputError):
            return _listen(host, _PORT)
        return _listen(host, 0)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With the protocol named, asyncio switches off Nagle's algorithm: 40 ms per answer.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen()
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        raise InputError(
            "host", f"{host!r} with port {port} cannot be used ({error})", "Choose another one"
        ) from error
    return listener
