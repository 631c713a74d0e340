"""The command ``setwise predict``."""

from pathlib import Path
from typing import Annotated

import typer

from setwise.cli import show
from setwise.cli.source import TABLE_HELP, Json

ModelFile = Annotated[Path, typer.Argument(help="A model file written by 'setwise fit'.")]


def predict(
    model: ModelFile,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    out: Annotated[
        Path | None,
        typer.Option(help="Parquet or CSV file to write; default: CSV to the terminal."),
    ] = None,
    json: Json = False,
) -> None:
    """Add columns 'probability' and 'predicted' to a table, in its order.

    A Parquet table of any size is written to another file in bounded memory.

    Example: setwise predict swissmetro.setwise swissmetro --out predictions.parquet
    """
    from setwise._errors import InputError
    from setwise.cli.tables import is_data_file, read_table, write_table
    from setwise.estimators import load

    if out is not None:
        write_table(None, out)  # refuse a bad path before the work
    estimator = load(model)
    if out is not None and not json and _streams(Path(table), out):
        from setwise.estimators.streaming import predict_file

        with show.counting_bar("rows") as on_rows:
            rows = predict_file(estimator, Path(table), out, on_rows)
        show.note(f"wrote {out}: {rows:,} rows")
        return
    if is_data_file(table):
        raise InputError(f"{table} is a data file; name a file for its predictions with --out")
    frame = read_table(table)
    choices = estimator.read(frame)
    frame = frame.with_columns(
        probability=estimator.predict_proba(choices), predicted=estimator.predict(choices)
    )
    if json:
        show.as_json(
            frame.select(estimator.schema_.roles.set, "probability", "predicted").to_dicts()
        )
    elif out is None:
        print(frame.write_csv(), end="")
    if out is not None:
        write_table(frame, out)
        show.note(f"wrote {out}: {len(frame):,} rows")


def _streams(table: Path, out: Path) -> bool:
    """Whether the table is predicted in parts: not if its own file is to be written over."""
    from setwise.cli.tables import is_data_file

    own = out.exists() and table.exists() and out.samefile(table)
    return (table.suffix.lower() == ".parquet" and not own) or is_data_file(table)
