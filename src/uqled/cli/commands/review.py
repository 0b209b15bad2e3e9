"""`uqled review`: the page on which people decide."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from uqled.cli.console import print_json
from uqled.cli.options import OutputOptions, RunArgument, RunData, RunMethod


def review(
    folder: RunArgument,
    output: OutputOptions,
    method: RunMethod = None,
    data: RunData = None,
    reviewer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Store decisions under this name. Default: your user name on this machine.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Listen on this address. With 0.0.0.0, other machines can open the page.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Listen on this port. Default: 8790, or a free one if that is taken.",
        ),
    ] = None,
    no_browser: Annotated[
        bool,
        typer.Option("--no-browser", help="Print the address of the page instead of opening it."),
    ] = False,
) -> None:
    """Review the flagged samples on a page in the browser.

    Each decision is stored in the run before the page confirms it. Stop with Ctrl+C.

    Examples:
        uqled review runs/photos
        uqled review runs/photos --reviewer anna --port 9000 --no-browser
    """
    from uqled.review.serve import open_review, print_address

    with ExitStack() as stack:
        stack.enter_context(output.stage("opening the run", says_end=False))

        def announce(address: str) -> None:
            stack.close()
            if output.as_json:
                print_json("review", result={"address": address})
            else:
                print_address(address)

        open_review(
            folder,
            data=data,
            method=method,
            reviewer=reviewer,
            host=host,
            port=port,
            browser=not no_browser,
            announce=announce,
        )
