"""The command ``setwise export``."""

from pathlib import Path
from typing import Annotated

import typer

from setwise.cli import show
from setwise.cli.predict import ModelFile
from setwise.cli.source import Json


def export(
    model: ModelFile,
    out: Annotated[Path, typer.Option(help="ONNX file to write.")],
    json: Json = False,
) -> None:
    """Write a model for programs that run ONNX, in any language.

    The file takes the values of the table; it computes logarithms, missing numbers, levels, dates
    and standardisation itself. Inputs are 'items' (sets x items x columns), 'present' (sets x
    items: which items are real, as sets are padded to one length) and, if the model has context,
    'context' (sets x columns). The output is 'probability' (sets x items). The order of columns
    and the levels of categories are in the file's metadata; --json prints them.

    This needs the package onnx: pip install 'setwise[export]'.

    Example: setwise export swissmetro.setwise --out swissmetro.onnx
    """
    import json as plain

    from setwise.scoring.onnx_file import export_onnx

    about = export_onnx(model, out)
    items, context = plain.loads(about["items"]), plain.loads(about["context"])
    if json:
        outside = plain.loads(about["outside_option"])
        show.as_json({"onnx": str(out), "items": items, "context": context, "outside": outside})
    else:
        rows = [
            (kind, str(place), column["column"], column["give"], _listed(column.get("levels", [])))
            for kind, columns in (("items", items), ("context", context))
            for place, column in enumerate(columns)
        ]
        show.table(("input", "place", "column", "give", "levels"), rows, numbers=False)
    show.note(f"wrote {out}")


def _listed(levels: list[str], most: int = 6) -> str:
    more = f" and {len(levels) - most} more" if len(levels) > most else ""
    return ", ".join(levels[:most]) + more
