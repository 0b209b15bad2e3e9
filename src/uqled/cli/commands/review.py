"""`uqled review`: the page on which people decide."""

from __future__ import annotations

from typing import Annotated

import typer

from uqled.cli.options import RunArgument, RunMethod


def review(
    folder: RunArgument,
    method: RunMethod = None,
    reviewer: Annotated[
        str | None, typer.Option(help="Name to decide under. Default: yours on this machine.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; 0.0.0.0 lets others in.")
    ] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(help="Default: 8790, or a free one.")] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Decide about the flagged samples, on a page in the browser."""
    from uqled.review.serve import review as serve

    serve(folder, method=method, reviewer=reviewer, host=host, port=port, browser=not no_browser)
