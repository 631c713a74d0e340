"""The command ``setwise show``: what a model file holds, and where the model comes from."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from setwise.cli import show
from setwise.cli.predict import ModelFile
from setwise.cli.source import FILE, Json, Source, boxed

if TYPE_CHECKING:
    from setwise.choices import Choices
    from setwise.scoring import Card


Title = Annotated[str | None, boxed(FILE, "Title of the model.")]
Description = Annotated[str | None, boxed(FILE, "What the model is for.")]
DataSource = Annotated[
    str | None,
    boxed(FILE, "Where the data come from. Default: the table's name."),
]
Licence = Annotated[str | None, boxed(FILE, "Terms of use of the model.")]


def show_model(model: ModelFile, json: Json = False) -> None:
    """Show what a model file holds: where the model comes from, its measures and its columns.

    Example: setwise show swissmetro.setwise
    """
    from setwise.scoring.model_file import Artifact

    artifact = Artifact.read(model, with_graph=False)
    schema = artifact.schema
    card = {} if artifact.card is None else artifact.card.to_json()
    columns = [
        {"name": one.feature.column, "role": role, "kind": one.kind}
        for role, encoders in (("item", schema.items), ("context", schema.context))
        for one in encoders
    ]
    about = {
        "estimator": artifact.estimator,
        "outside_option": schema.outside,
        "example_sets": len(artifact.sample),
        "reference_models": sorted(artifact.reference),
    }
    if json:
        show.as_json({"model": str(model), "card": card, **about, "columns": columns})
        return
    print(card.get("title", model.name))
    if "description" in card:
        print(card["description"])
    metrics = card.get("metrics", {})
    facts: dict[str, Any] = {
        name: card[name] for name in ("source", "date", "sets", "rows") if name in card
    }
    facts |= {f"{name} (held out)": value for name, value in metrics.items()}
    facts |= {"licence": card["licence"]} if "licence" in card else {}
    rows = [(name.replace("_", " "), _words(value)) for name, value in (facts | about).items()]
    show.table(("what", "value"), rows, numbers=False)
    heads = ("column", "role", "kind")
    show.table(heads, [(one["name"], one["role"], one["kind"]) for one in columns], numbers=False)


def of_fit(
    choices: "Choices",
    held_out: Any,
    source: Source,
    title: str | None,
    description: str | None,
    data_source: str | None,
    licence: str | None,
) -> "Card":
    """The card of a model that was just fitted to choices; ``held_out`` are its measures.

    The data come from the table that was read, unless ``data_source`` says otherwise.
    """
    import math

    from setwise.scoring import Card

    measured = {} if held_out is None else dict(held_out.items())
    metrics = {name: float(value) for name, value in measured.items() if math.isfinite(value)}
    today = datetime.now(UTC).date().isoformat()
    rows = int(choices.offsets[-1])
    origin = data_source or Path(source.table).name
    return Card(title, description, origin, today, len(choices), rows, metrics or None, licence)


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
