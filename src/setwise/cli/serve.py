"""The command ``setwise serve``."""

import os
from pathlib import Path
from typing import Annotated

import typer

from setwise.cli.threads import one_thread_of_algebra

_EXTRA = ("httptools", "msgspec", "uvicorn", "uvloop")


ModelFiles = Annotated[
    list[Path],
    typer.Argument(help="Model files written by 'setwise fit'. The first is the default."),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        help="Name by which clients may call the service, besides those of the loopback; "
        "'*' for any name. Can be given several times."
    ),
]
AccessLog = Annotated[
    bool, typer.Option("--access-log", help="Write a line of JSON per request to standard output.")
]


def serve(
    models: ModelFiles,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all addresses.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=0, max=65535)] = 8000,
    workers: Annotated[int, typer.Option(help="Number of processes.", min=1)] = 1,
    reference: Annotated[
        Path | None,
        typer.Option(help="Model file to compare with. Default: the MNL in the model's file."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with a token that requests must send. Or set SETWISE_TOKEN."),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let other machines ask without a token.")
    ] = False,
    allowed_host: Names = None,
    max_body: Annotated[int, typer.Option(help="Most bytes per request.", min=1)] = 16 * 1024**2,
    max_sets: Annotated[int, typer.Option(help="Most sets per request.", min=1)] = 10_000,
    max_items: Annotated[int, typer.Option(help="Most items per set.", min=1)] = 1_000,
    timeout: Annotated[float, typer.Option(help="Most seconds per request.")] = 10.0,
    max_waiting: Annotated[
        int,
        typer.Option(help="Most requests that a process holds at a time; more are refused.", min=1),
    ] = 64,
    max_connections: Annotated[
        int, typer.Option(help="Most open connections per process.", min=1)
    ] = 1_000,
    drain: Annotated[
        float, typer.Option(help="Seconds for which requests are still taken after SIGTERM.")
    ] = 1.0,
    access_log: AccessLog = False,
) -> None:
    """Answer requests for predictions over HTTP, with a page that shows the model at work.

    POST /v1/predict takes sets as JSON, with the columns of the training table. The page is at /.
    Several models are served by their names: those of their files, without the ending.
    If a model file is replaced, the service loads the new one. On SIGTERM it answers the requests
    that have come, then ends.

    Example: setwise serve swissmetro.setwise --port 8000
    """
    from setwise._errors import InputError

    one_thread_of_algebra()
    try:
        from setwise.server import Limits, Settings, run
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise InputError(
            f"the service needs the package '{error.name}'; install it with: "
            "pip install 'setwise[serve]'"
        ) from None
    limits = Limits(max_body, max_sets, max_items, timeout, max_waiting, max_connections)
    hosts = tuple(allowed_host or ())
    settings = Settings(
        tuple(models), reference, limits, _token(token_file), hosts, drain, access_log
    )
    run(settings, host, port, workers, no_token=no_token)


def _token(path: Path | None) -> str | None:
    from setwise._errors import InputError

    if path is None:
        return os.environ.get("SETWISE_TOKEN")
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the token file {path}: {error}; check the path") from None
