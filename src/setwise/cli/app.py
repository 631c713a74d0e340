"""The commands fit, evaluate, models and compare; each other command has a file of its own."""

import inspect
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from setwise._errors import InputError
from setwise.cli import (
    audit,
    check,
    datasets,
    decide,
    explain,
    export,
    model_card,
    predict,
    reproduce,
    serve,
    show,
    theory,
    tune,
    violations,
)
from setwise.cli.cluster import FLAG, Cluster, FitCluster, Machines, MinWorkers, Workers
from setwise.cli.cluster import executor as executor_of
from setwise.cli.display import displayed
from setwise.cli.source import (
    DUPLICATE_HELP,
    EPOCHS_HELP,
    FILE,
    MULTIPLE_HELP,
    OUTSIDE_HELP,
    REPORT_HELP,
    ROWS,
    SPLIT_BY_HELP,
    TABLE_HELP,
    TRAINING,
    Decimal,
    Encoding,
    Json,
    Objective,
    OnDuplicate,
    OnMultiple,
    OnNone,
    Preset,
    Sep,
    Source,
    SplitBy,
    StopOn,
    boxed,
    may_take_source,
    names,
    seed_option,
    takes_source,
)


class Commands(TyperGroup):
    """All commands: warnings become notes, Ctrl-C a word, and a closed pipe is not an error."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with show.warnings_as_notes():
                found = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()  # a closed pipe ends here quietly; at exit it is too late
            return found
        except KeyboardInterrupt:
            show.note("interrupted")
            raise typer.Exit(130) from None


class MayUseCluster(TyperCommand):
    """A command whose ``--cluster`` needs no address; an address follows '=', not a space."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f"{FLAG}=auto" if one == FLAG else one for one in args])


def _version(wanted: bool) -> bool:
    if wanted:
        from setwise import __version__

        print(f"setwise {__version__}")
        raise typer.Exit
    return wanted


app = typer.Typer(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

DATA, MODELS, USE, PAPER = "Your data", "Models", "Use a model", "The paper"

app.command(rich_help_panel=DATA)(check.check)
app.add_typer(datasets.app, name="datasets", rich_help_panel=DATA)


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Predict which alternative people choose from a set, and learn how context changes choices.

    A table has one row per item. --set names the column with the id of the choice set, --chosen
    the 0/1 column that marks the chosen item. Start with: setwise compare swissmetro
    """


BUDGET_HELP = "Seconds that training may take, for the model auto. Default: no limit."
DIMENSION_HELP = "Number of score functions, l. Default: 24."
ENSEMBLE_HELP = "Number of models to average. Default: 6 for sda, else 1."
BATCH_SIZE_HELP = "Choice sets per training step. Default: 128."
RATE_HELP = "Adam's first step size. Default: the model's."
DROPOUT_HELP = "Share of hidden units to drop. Default: the model's."
WEIGHT_DECAY_HELP = (
    "How strongly weights are pulled towards 0, as in AdamW. Default: the model's, such as 0.01."
)
CHECKPOINT_HELP = "Folder for the state: after a kill, the same command resumes there."
SAMPLE_HELP = "Number of sets to keep in the model file as examples."
PATIENCE_HELP = "Stop if the validation measure has not improved for this many epochs. Default: 25."
STOP_ON_HELP = "Validation measure that early stopping watches. Default: nll for most models."
OBJECTIVE_HELP = "Loss to minimise. Default: cross_entropy for most models."

LABEL_HELP = (
    "How the page of 'setwise serve' shows a column, such as 'time=travel time (min)'; once per "
    "column."
)
ITEM_NAME_HELP = (
    "How that page names an item, such as '{brand}, {stars} stars'. Default: by its alternative."
)

Seed = Annotated[int, seed_option("Seed of the splits, the initial weights and the order of sets.")]


@app.command(cls=MayUseCluster, rich_help_panel=MODELS)
@takes_source
def fit(
    source: Source,
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    model: Annotated[str, typer.Option(help="Name of a model; see 'setwise models'.")] = "auto",
    time_budget: Annotated[float | None, boxed(TRAINING, BUDGET_HELP)] = None,
    dimension: Annotated[int | None, boxed(TRAINING, DIMENSION_HELP)] = None,
    ensemble: Annotated[int | None, boxed(TRAINING, ENSEMBLE_HELP)] = None,
    epochs: Annotated[int | None, boxed(TRAINING, EPOCHS_HELP)] = None,
    batch_size: Annotated[int | None, boxed(TRAINING, BATCH_SIZE_HELP)] = None,
    learning_rate: Annotated[float | None, boxed(TRAINING, RATE_HELP)] = None,
    weight_decay: Annotated[float | None, boxed(TRAINING, WEIGHT_DECAY_HELP)] = None,
    dropout: Annotated[float | None, boxed(TRAINING, DROPOUT_HELP)] = None,
    patience: Annotated[int | None, boxed(TRAINING, PATIENCE_HELP)] = None,
    stop_on: Annotated[StopOn | None, boxed(TRAINING, STOP_ON_HELP)] = None,
    objective: Annotated[Objective | None, boxed(TRAINING, OBJECTIVE_HELP)] = None,
    checkpoint: Annotated[Path | None, boxed(TRAINING, CHECKPOINT_HELP)] = None,
    sample: Annotated[int, boxed(FILE, SAMPLE_HELP, min=0, max=24)] = 24,
    label: Annotated[list[str] | None, boxed(FILE, LABEL_HELP)] = None,
    item_name: Annotated[str | None, boxed(FILE, ITEM_NAME_HELP)] = None,
    title: model_card.Title = None,
    description: model_card.Description = None,
    data_source: model_card.DataSource = None,
    licence: model_card.Licence = None,
    cluster: FitCluster = None,
    workers: Workers = None,
    min_workers: MinWorkers = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a model on all sets of a table and write it to a file.

    The default, auto, weighs logits, boosted trees and networks by how they predict sets that they
    have not seen; every set trains some of them. Models that stop early hold out a fifth of the
    sets (with --group, a fifth of the groups), and the measures are of these sets. Other models are
    fitted to all sets. The file keeps some sets as examples for the page of 'setwise serve', an MNL
    to compare the model with, and where the model comes from ('setwise show'). With --sample 0 it
    holds no row of the data. With --cluster all machines train the model together.

    Example: setwise fit swissmetro --out swissmetro.setwise
    """
    from setwise._files import check_folder, check_writable, kept_elsewhere
    from setwise.choices.reading import few
    from setwise.estimators import configured

    check_writable(out, source.reads(), ".setwise")
    if checkpoint is not None:
        check_folder(checkpoint)
    machines = Machines(cluster, workers, min_workers)
    training = {
        "epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate,
        "weight_decay": weight_decay, "dropout": dropout, "patience": patience,
        "stop_on": stop_on, "objective": objective,
    }  # fmt: skip
    estimator = configured(model, seed, dimension, training, ensemble, time_budget)
    choices = source.read(seed)
    show.dropped(choices)
    display = displayed(choices, source.table, label or [], item_name, with_ranges=sample > 0)
    estimator = machines.fitted(estimator, choices, source, seed, checkpoint)
    apart = _held_out_measures(estimator, choices)
    about = {
        "sample": few(choices, sample) if sample else None,
        "reference": _reference_mnl(model, estimator, choices),
        "display": display,
        "card": model_card.of_fit(choices, apart, source, title, description, data_source, licence),
    }
    kept_elsewhere(lambda path: estimator.save(path, **about), out, "trained model")
    _show_fit(estimator, choices, apart, out, json)
    show.note(f"wrote {out}")
    if getattr(estimator, "interrupted_", False):
        raise typer.Exit(130)


app.command("show", rich_help_panel=MODELS)(model_card.show_model)
app.command(cls=MayUseCluster, rich_help_panel=USE)(predict.predict)
app.command(rich_help_panel=USE)(serve.serve)
app.command(rich_help_panel=USE)(export.export)


@app.command(rich_help_panel=MODELS)
def evaluate(
    model: predict.ModelFile,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    on_none: Annotated[OnNone, boxed(ROWS, OUTSIDE_HELP)] = "error",
    on_multiple: Annotated[OnMultiple, boxed(ROWS, MULTIPLE_HELP)] = "error",
    on_duplicate: Annotated[OnDuplicate, boxed(ROWS, DUPLICATE_HELP)] = "error",
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Measure a model on a table with known choices.

    Example: setwise evaluate swissmetro.setwise swissmetro
    """
    from setwise.choices import Irregular, open_choices
    from setwise.cli.tables import csv_format, is_data_file, read_table
    from setwise.estimators import load

    form = csv_format(table, sep, decimal, encoding)
    estimator = load(model)
    if is_data_file(table):
        choices = open_choices(table)
    else:
        irregular = Irregular(on_none, on_multiple, on_duplicate)
        choices = estimator.read(read_table(table, form), with_choice=True, irregular=irregular)
    show.dropped(choices)
    measured = estimator.evaluate(choices)
    if json:
        show.as_json(_as_json(measured))
    else:
        _show_metrics(measured, f"{measured.sets:,} sets")


@app.command(rich_help_panel=MODELS)
def models(json: Json = False) -> None:
    """List the models: family, formula, parameters for 8 features, and whether IIA holds.

    Example: setwise models
    """
    from setwise.estimators.listing import listed

    entries = listed()
    if json:
        show.as_json(entries)
        return
    rows = [
        (
            one["name"], one["family"], one["formula"], one["reference"],
            "" if one["parameters"] is None else f"{one['parameters']:,}",
            "holds" if one["satisfies_iia"] else "",
        )
        for one in entries
    ]  # fmt: skip
    heads = ("name", "family", "g(x, s)", "reference", "parameters", "IIA")
    show.table(heads, rows, numbers=False)


@app.command(cls=MayUseCluster, rich_help_panel=MODELS)
@takes_source
def compare(
    source: Source,
    models: Annotated[
        str,
        typer.Option(
            help="Names separated by commas, or 'all' (all but nested); see 'setwise models'."
        ),
    ] = "auto,sda,boosted_logit,mnl",
    splits: Annotated[int, typer.Option(help="Number of random 50:25:25 splits.")] = 5,
    split_by: Annotated[SplitBy, typer.Option(help=SPLIT_BY_HELP)] = "set",
    metric: Annotated[str, typer.Option(help="Measure to sort by, such as nll or top1.")] = "nll",
    preset: Annotated[
        Preset, typer.Option(help="Sizes and stopping rule: setwise's or the paper's.")
    ] = "default",
    trials: Annotated[
        int,
        typer.Option(help="Trials of tuning per model and split; 0 for none. See 'setwise tune'."),
    ] = 0,
    storage: Annotated[str, typer.Option(help=tune.STORAGE_HELP)] = tune.STORAGE,
    report: Annotated[Path | None, typer.Option(help=REPORT_HELP)] = None,
    cluster: Cluster = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train several models on the same splits and show which predicts best.

    Example: setwise compare swissmetro --splits 5 --report report.html
    """
    from setwise._files import check_outputs, check_writable
    from setwise.estimators import everyone, named

    check_outputs([report, tune.storage_file(storage) if trials else None], source.reads())
    if report is not None:
        check_writable(report, kind=".html")
    chosen = everyone() if models == "all" else names("--models", models)
    estimators = {name: named(name, preset) for name in chosen}
    choices = source.read(seed)
    show.dropped(choices)
    from setwise.comparison.comparison import compare as run
    from setwise.reports.comparison import HEADS, cells, note, write_report
    from setwise.tuning import Tuning

    space = tune.SPACES[preset]
    tuning = Tuning(trials, space, storage=storage, seed=seed) if trials else None
    bar = show.cells_bar(len(estimators) * splits)
    with executor_of(cluster) as executor, bar as on_cell:
        result = run(
            estimators, choices, splits=splits, seed=seed, split_by=split_by, metric=metric,
            tuning=tuning, on_cell=on_cell, executor=executor,
        )  # fmt: skip
    if json:
        show.as_json(result.to_json())
    else:
        show.table(HEADS, [cells(row) for row in result.leaderboard()], title=result.data)
        print(note(result))
    if report is not None:
        write_report(result, report, f"Models of choice on {Path(source.table).stem}")
        show.note(f"wrote {report}")


app.command(cls=MayUseCluster, rich_help_panel=MODELS)(takes_source(tune.tune))
app.command(rich_help_panel=USE)(explain.explain)
app.add_typer(decide.app, name="decide", rich_help_panel=USE)
app.command(rich_help_panel=USE)(violations.violations)
app.command(rich_help_panel=USE)(audit.audit)
app.command(cls=MayUseCluster, rich_help_panel=PAPER)(may_take_source(reproduce.reproduce))
app.add_typer(theory.app, name="theory", rich_help_panel=PAPER)


def wrap_help(commands: typer.Typer) -> None:
    """Let the terminal break the lines of every help text: typer keeps those of the source."""
    own = None if commands.info.help else commands.registered_callback
    for one in (*commands.registered_commands, own):
        if one is not None and one.callback is not None:
            paragraphs = inspect.cleandoc(one.callback.__doc__ or "").split("\n\n")
            one.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            wrap_help(group.typer_instance)


wrap_help(app)


def main() -> None:
    """Run the command line; bad input gives one sentence and exit code 2.

    Only an error of setwise itself shows a traceback.
    """
    try:
        app()
    except InputError as error:
        _end(str(error))
    except KeyboardInterrupt:
        show.note("interrupted")
        sys.exit(130)
    except MemoryError:
        _end("the memory is full; use fewer sets (--max-sets), or build a data file")
    except Exception as error:
        from setwise._files import fault, is_of_disk

        if not isinstance(error, OSError) and not is_of_disk(error):
            raise
        name = getattr(error, "filename", None)
        place = f"{name}: " if name else ""
        _end(f"{place}{fault(error)}; check the file, its folder and the free space on the disk")


def _end(text: str) -> None:
    show.note(" ".join(f"error: {text}".split()))  # names may hold line breaks
    sys.exit(2)


def _reference_mnl(model: str, estimator: Any, choices: Any) -> Any:
    """The MNL to compare with a model without IIA; None if it cannot be fitted."""
    from setwise.estimators import CATALOGUE, reference_mnl

    if CATALOGUE[model].about.satisfies_iia:
        return None
    try:
        return reference_mnl(estimator, choices)
    except InputError as error:
        warnings.warn(f"the file has no MNL to compare the model with: {error}", stacklevel=2)
        return None


def _held_out_measures(estimator: Any, choices: Any) -> Any:
    """How well the model does on the sets that it held out; None if it held out none."""
    _, held_out = estimator.parts_of_fit(choices)
    return None if held_out is None else estimator.evaluate(held_out)


def _show_fit(estimator: Any, choices: Any, apart: Any, out: Path, json: bool) -> None:
    """How well the model does on the sets that it held out, and on those that it was fitted to."""
    fitted, _ = estimator.parts_of_fit(choices)
    if json:
        inside = estimator.evaluate(fitted)
        found = {"held_out": apart and _as_json(apart), "in_sample": _as_json(inside)}
        if hasattr(estimator, "summary"):
            found["summary"] = estimator.summary().to_json()
        show.as_json({"model": str(out), "sets": len(choices), **found})
        return
    if hasattr(estimator, "summary"):
        print(estimator.summary())
    if apart is not None:
        print(
            f"Measures of the {apart.sets:,} sets that were held out of training. Early stopping "
            "used them,\nso new sets may be predicted slightly worse."
        )
        _show_metrics(apart)
    else:
        print(f"Fitted to all {len(choices):,} sets; none was held out.")
        if not hasattr(estimator, "summary"):
            print("In-sample measures:")
            _show_metrics(estimator.evaluate(fitted))


def _as_json(measured: Any) -> dict[str, Any]:
    errors = dict(measured.standard_errors)
    return {"sets": measured.sets, **measured, "standard_errors": errors}


def _show_metrics(measured: Any, title: str | None = None) -> None:
    rows = [
        (name, f"{value:.4f}", f"{measured.standard_errors[name]:.4f}")
        if name in measured.standard_errors
        else (name, f"{value:.4f}", "")
        for name, value in measured.items()
    ]
    show.table(("measure", "value", "standard error"), rows, title=title)
