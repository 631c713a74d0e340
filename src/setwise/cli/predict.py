"""The command ``setwise predict``."""

import os.path
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.cli import show
from setwise.cli.cluster import Cluster
from setwise.cli.cluster import executor as executor_of
from setwise.cli.source import TABLE_HELP, Decimal, Encoding, Json, Sep
from setwise.cli.threads import one_thread_of_algebra

if TYPE_CHECKING:
    from setwise.scoring.scorer import RowModel

ModelFile = Annotated[Path, typer.Argument(help="A model file written by 'setwise fit'.")]


def predict(
    model: ModelFile,
    table: Annotated[str, typer.Argument(help=f"{TABLE_HELP} Or a folder of Parquet files.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Parquet or CSV file to write; for a folder, a folder. Default: print CSV."
        ),
    ] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    cluster: Cluster = None,
    json: Json = False,
) -> None:
    """Add columns 'probability' and 'predicted' to a table, in its order.

    For a wide table, and a model trained on one, there is a column 'probability.NAME' for each
    alternative, and 'predicted' names one.

    A Parquet table may be larger than memory. For a folder, each file becomes a file of the same
    name, complete or absent; running the command again writes the files that are missing. All rows
    of a set must be in one file.

    Example: setwise predict swissmetro.setwise swissmetro --out predictions.parquet
    """
    one_thread_of_algebra()
    from setwise._errors import InputError
    from setwise.choices import read_like
    from setwise.choices.reading import is_wide
    from setwise.cli.tables import check_table, csv_format, is_data_file, read_table, write_table
    from setwise.scoring.prediction import predict_file
    from setwise.scoring.scorer import Predictions, warn_of_replaced
    from setwise.scoring.wide_tables import predict_wide

    form = csv_format(table, sep, decimal, encoding)
    if os.path.isdir(table):
        _predict_folder(model, Path(table), out, cluster)
        return
    if cluster is not None:
        raise InputError(f"{table} is not a folder; with --cluster, name a folder of Parquet files")
    if out is not None:
        check_table(out, reads=[model, table])
    scorer = _scorer(model)
    in_parts = Path(table).suffix.lower() == ".parquet" or is_data_file(table)
    if out is not None and not json and in_parts:
        with show.counting_bar("rows") as on_rows:
            rows = predict_file(scorer, Path(table), out, on_rows)
        show.note(f"wrote {out}: {rows:,} rows")
        return
    if is_data_file(table):
        raise InputError(f"{table} is a data file; name a file for its predictions with --out")
    frame, roles = read_table(table, form), scorer.schema.roles
    if is_wide(roles, frame.columns):
        shown = [roles.set] if roles.set in frame.columns else []
        frame = predict_wide(scorer, frame)
        shown += [name for name in frame.columns if name.startswith("probability.")]
    else:
        warn_of_replaced(frame.columns)
        found = Predictions.of_choices(scorer, read_like(scorer.schema, frame))
        frame, shown = found.joined_to(frame), [roles.set, "probability"]
    if json:
        show.as_json(frame.select(*shown, "predicted").to_dicts())
    elif out is None:
        print(frame.write_csv(), end="")
    if out is not None:
        write_table(frame, out)
        show.note(f"wrote {out}: {len(frame):,} rows")


def _scorer(path: Path) -> "RowModel":
    """The model of a file: a scorer if possible, since importing JAX takes long.

    Trees and some older files have no graph, so that the estimator predicts.
    """
    from setwise.scoring.model_file import Artifact
    from setwise.scoring.scorer import Scorer

    artifact = Artifact.read(path)
    if artifact.graph is not None:
        return Scorer.of(artifact, path)
    from setwise.estimators import load

    return load(path)


def _predict_folder(model: Path, folder: Path, out: Path | None, cluster: str | None) -> None:
    from setwise._errors import InputError
    from setwise.scoring.predict_folder import predict_folder

    if out is None:
        raise InputError(f"{folder} is a folder; name a folder for its predictions with --out")
    with executor_of(cluster) as executor, show.counting_bar("files") as on_file:
        done = predict_folder(_scorer, model, folder, out, executor=executor, on_file=on_file)
    kept = f"; {done.kept:,} files were there already" if done.kept else ""
    show.note(f"wrote {done.files:,} files to {out}: {done.rows:,} rows{kept}")
