"""The routes of the review page. Every decision is on the disk before it is answered."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from uqled.review.server import lists, maps, writes
from uqled.review.server.answers import make_reader, make_writer
from uqled.review.server.parameters import read_sample_number
from uqled.review.session import ReviewSession

_DAY = 86_400  # seconds

_STATIC_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def make_application(session: ReviewSession) -> Starlette:
    """The page and its routes; `Guard` goes around it."""
    pages = files("uqled.review") / "templates"
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    page = environment.from_string((pages / "page.html").read_text("utf-8")).render(
        name=session.predictions.path.resolve().name
    )
    static = {
        item.name: (item.read_bytes(), _STATIC_TYPES[item.name.rsplit(".", 1)[1]])
        for folder in ("static", "static/views")  # served as one
        for item in (files("uqled.review") / folder).iterdir()
        if item.is_file()
    }

    def show_page(_: Request) -> Response:
        return Response(page, media_type="text/html")

    def show_static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            raise HTTPException(404)
        body, kind = static[name]
        return Response(body, media_type=kind, headers={"Cache-Control": "no-cache"})

    def show_thumbnail(request: Request) -> Response:
        return _send_picture(session, request, whole=False)

    def show_picture(request: Request) -> Response:
        return _send_picture(session, request, whole=True)

    routes = [
        Route("/", show_page),
        Route("/static/{name}", show_static),
        Route("/thumbnail/{index}", show_thumbnail),
        Route("/picture/{index}", show_picture),
        Route("/api/start", make_reader(session, lists.start_page)),
        Route("/api/samples", make_reader(session, lists.list_samples)),
        Route("/api/sample/{index}", make_reader(session, lists.show_sample)),
        Route("/api/changes", make_reader(session, lists.list_changes)),
        Route("/api/estimates", make_reader(session, lists.show_estimates)),
        Route("/api/groups", make_reader(session, lists.show_groups)),
        Route("/api/map", make_reader(session, maps.show_map)),
        Route("/api/map/places", make_reader(session, maps.send_places)),
        Route("/api/map/values", make_reader(session, maps.send_values)),
        Route("/api/classes", make_reader(session, lists.show_classes)),
        Route("/api/class/{index}", make_reader(session, lists.show_class)),
        Route("/api/agreement", make_reader(session, lists.show_agreement)),
        Route("/api/class", make_writer(session, writes.change_class), methods=["POST"]),
        Route("/api/opinion", make_writer(session, writes.give_opinion), methods=["POST"]),
        Route("/api/decide", make_writer(session, writes.decide), methods=["POST"]),
        Route("/api/decide-all", make_writer(session, writes.decide_all), methods=["POST"]),
        Route("/api/audit", make_writer(session, writes.begin_audit), methods=["POST"]),
        Route("/api/undo", make_writer(session, writes.undo), methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _send_http_error})
    app.router.redirect_slashes = False  # it would lead to an address without the token
    return app


def _send_picture(session: ReviewSession, request: Request, *, whole: bool) -> Response:
    index = read_sample_number(request, len(session.predictions))
    if session.pictures is None:
        raise HTTPException(404)
    read = session.pictures.read_whole if whole else session.pictures.read_thumbnail
    content, form = read(index)
    # The token, and with it the address, is another one each time the server starts.
    cache = {"Cache-Control": f"private, max-age={_DAY}, immutable"}
    return Response(content, media_type=f"image/{form}", headers=cache)


def _send_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response(
        f"{error.detail}\n", error.status_code, headers=error.headers, media_type="text/plain"
    )
