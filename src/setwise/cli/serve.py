"""The command ``setwise serve``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from setwise.cli.predict import ModelFile

# One thread of linear algebra for each thread that answers: more of them only get in the way.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

_EXTRA = ("fastapi", "httptools", "msgspec", "starlette", "uvicorn", "uvloop")


def serve(
    model: ModelFile,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Processes that answer.", min=1)] = 1,
    beside: Annotated[
        Path | None, typer.Option(help="Model to show beside it; default: the MNL in its file.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with a token that requests must bear; or set SETWISE_TOKEN."),
    ] = None,
    max_body: Annotated[int, typer.Option(help="Most bytes of a request.", min=1)] = 16 * 1024**2,
    max_sets: Annotated[int, typer.Option(help="Most sets of a request.", min=1)] = 10_000,
    max_items: Annotated[int, typer.Option(help="Most items of a set.", min=1)] = 1_000,
    timeout: Annotated[float, typer.Option(help="Seconds that a request may take.")] = 10.0,
    max_waiting: Annotated[
        int, typer.Option(help="Requests a process answers at once; more are refused.", min=1)
    ] = 64,
) -> None:
    """Answer requests for predictions over HTTP, with a page that shows the model at work.

    POST /v1/predict takes sets as JSON, with the columns of the training table; the page is at /.
    A new model file at the same path is taken over at once. SIGTERM lets requests end first.

    Example: setwise serve swissmetro.setwise --port 8000
    """
    from setwise._errors import InputError

    for name in _ONE_THREAD:
        os.environ.setdefault(name, "1")
    try:
        from setwise.server import Limits, Settings, run
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise InputError(
            f"the service needs the package '{error.name}'; install it with: "
            "pip install 'setwise[serve]'"
        ) from None
    limits = Limits(max_body, max_sets, max_items, timeout, max_waiting)
    run(Settings(model, beside, limits, _token(token_file)), host, port, workers)


def _token(path: Path | None) -> str | None:
    from setwise._errors import InputError

    if path is None:
        return os.environ.get("SETWISE_TOKEN")
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the token file {path}: {error}; check the path") from None
