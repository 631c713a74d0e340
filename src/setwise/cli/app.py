"""The commands: fit, evaluate, models, compare; the others are beside, one file each."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from setwise._errors import InputError
from setwise.cli import (
    check,
    datasets,
    explain,
    export,
    predict,
    reproduce,
    serve,
    show,
    theory,
    tune,
    violations,
)
from setwise.cli.cluster import Cluster, FitCluster, Machines, MayUseCluster, MinWorkers, Workers
from setwise.cli.cluster import crew as crew_of
from setwise.cli.source import (
    TABLE_HELP,
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
    may_take_source,
    names,
    seed_option,
    takes_source,
)


class Commands(TyperGroup):
    """All commands: warnings become notes, Ctrl-C a word, and a reader may leave early."""

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
app.add_typer(datasets.app, name="datasets")


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Predict which item people choose from a set, and learn how context moves choices.

    A table has one row per item; --set names the column of choice sets, --chosen the 0/1 column
    of what was chosen. Start with: setwise compare swissmetro
    """


Seed = Annotated[int, seed_option("Of splits, initial weights and the order of sets.")]


@app.command(cls=MayUseCluster)
@takes_source
def fit(
    source: Source,
    out: Annotated[Path, typer.Option(help="Where to write the model file.")],
    model: Annotated[str, typer.Option(help="Name of a model; see 'setwise models'.")] = "sda",
    dimension: Annotated[int | None, typer.Option(help="l, the number of score functions.")] = None,
    ensemble: Annotated[int | None, typer.Option(help="How many models to average.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Most passes over the data.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Sets a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Adam's first step size.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="As in AdamW.")] = None,
    dropout: Annotated[float | None, typer.Option(help="Share of units dropped.")] = None,
    patience: Annotated[int | None, typer.Option(help="Epochs without gain to stop.")] = None,
    stop_on: Annotated[StopOn | None, typer.Option(help="What early stopping watches.")] = None,
    objective: Annotated[Objective | None, typer.Option(help="What to minimise.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder to resume from after a kill, to the same model.")
    ] = None,
    sample: Annotated[
        int, typer.Option(help="Sets to keep in the file as examples.", min=0, max=24)
    ] = 24,
    cluster: FitCluster = None,
    workers: Workers = None,
    min_workers: MinWorkers = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train a model on all sets of a table and write it to a file.

    Models that stop early hold out a fifth of the sets (of the groups, with --group), and the
    measures are of these; other models are fitted to all sets. The file keeps some sets as
    examples for the page of 'setwise serve', and an MNL to show beside the model; with --sample 0
    it holds no row of the data. With --cluster all machines train it together.

    Example: setwise fit swissmetro --model sda --out swissmetro.setwise
    """
    from setwise._files import check_folder, check_writable, kept_elsewhere
    from setwise.choices.reading import few
    from setwise.estimators import configured

    check_writable(out, source.reads())
    if checkpoint is not None:
        check_folder(checkpoint)
    machines = Machines(cluster, workers, min_workers)
    training = {
        "epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate,
        "weight_decay": weight_decay, "dropout": dropout, "patience": patience,
        "stop_on": stop_on and stop_on.value, "objective": objective and objective.value,
    }  # fmt: skip
    estimator = configured(model, seed, dimension, training, ensemble)
    choices = source.read(seed)
    show.dropped(choices)
    estimator = machines.fitted(estimator, choices, source, seed, checkpoint)
    about = {
        "sample": few(choices, sample) if sample else None,
        "beside": _mnl_beside(model, estimator, choices),
    }
    kept_elsewhere(lambda path: estimator.save(path, **about), out, "trained model")
    _show_fit(estimator, choices, out, json)
    show.note(f"wrote {out}")
    if getattr(estimator, "interrupted_", False):
        raise typer.Exit(130)


app.command(cls=MayUseCluster)(predict.predict)
app.command()(export.export)
app.command()(check.check)
app.command()(serve.serve)


@app.command()
def evaluate(
    model: predict.ModelFile,
    table: Annotated[str, typer.Argument(help=TABLE_HELP)],
    on_none: Annotated[OnNone, typer.Option(help="Sets without a choice.")] = OnNone.error,
    on_multiple: Annotated[
        OnMultiple, typer.Option(help="Sets with several choices.")
    ] = OnMultiple.error,
    on_duplicate: Annotated[
        OnDuplicate, typer.Option(help="Rows that repeat an earlier row.")
    ] = OnDuplicate.error,
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
        irregular = Irregular(on_none.value, on_multiple.value, on_duplicate.value)
        choices = estimator.read(read_table(table, form), with_choice=True, irregular=irregular)
    show.dropped(choices)
    measured = estimator.evaluate(choices)
    if json:
        show.as_json(_as_json(measured))
    else:
        _show_metrics(measured, f"{measured.sets:,} sets")


@app.command()
def models(json: Json = False) -> None:
    """List the models: family, formula, parameters for 8 features, and whether IIA holds.

    Example: setwise models
    """
    from dataclasses import asdict

    from setwise.estimators import zoo

    entries = zoo()
    if json:
        show.as_json(
            [{"name": e.name, **asdict(e.about), "parameters": e.parameters()} for e in entries]
        )
        return
    rows = [
        (
            entry.name, entry.about.family, entry.about.formula, entry.about.reference,
            "" if (count := entry.parameters()) is None else f"{count:,}",
            "holds" if entry.about.satisfies_iia else "",
        )
        for entry in entries
    ]  # fmt: skip
    heads = ("name", "family", "g(x, s)", "reference", "parameters", "IIA")
    show.table(heads, rows, numbers=False)


@app.command(cls=MayUseCluster)
@takes_source
def compare(
    source: Source,
    models: Annotated[
        str,
        typer.Option(help="Names by commas, or 'all' (but nested); see 'setwise models'."),
    ] = "mnl,sdw,sde,sda",
    splits: Annotated[int, typer.Option(help="Number of random 50:25:25 splits.")] = 5,
    split_by: Annotated[SplitBy, typer.Option(help="What stays together.")] = SplitBy.set,
    metric: Annotated[str, typer.Option(help="What to sort by.")] = "nll",
    preset: Annotated[
        Preset, typer.Option(help="Sizes and stopping: setwise's or the paper's.")
    ] = Preset.default,
    trials: Annotated[
        int, typer.Option(help="Tune first, with so many trials a split; see 'setwise tune'.")
    ] = 0,
    storage: Annotated[str, typer.Option(help=tune.STORAGE_HELP)] = tune.STORAGE,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with tables and pictures here (HTML).")
    ] = None,
    cluster: Cluster = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Train several models on the same splits and show which predicts best.

    Example: setwise compare swissmetro --splits 5 --report report.html
    """
    from setwise._files import check_outputs
    from setwise.estimators import everyone, named

    check_outputs([report, tune.storage_file(storage) if trials else None], source.reads())
    chosen = everyone() if models == "all" else names("--models", models)
    estimators = {name: named(name, preset.value) for name in chosen}
    choices = source.read(seed)
    show.dropped(choices)
    from setwise.comparison.comparison import compare as run
    from setwise.reports.comparison import HEADS, cells, note, write_report
    from setwise.tuning import Tuning

    space = tune.SPACES[preset]
    tuning = Tuning(trials, space, storage=storage, seed=seed) if trials else None
    bar = show.cells_bar(len(estimators) * splits)
    with crew_of(cluster) as crew, bar as on_cell:
        result = run(
            estimators, choices, splits=splits, seed=seed, split_by=split_by.value, metric=metric,
            tuning=tuning, on_cell=on_cell, crew=crew,
        )  # fmt: skip
    if json:
        show.as_json(result.to_json())
    else:
        show.table(HEADS, [cells(row) for row in result.leaderboard()], title=result.data)
        print(note(result))
    if report is not None:
        write_report(result, report, f"Models of choice on {Path(source.table).stem}")
        show.note(f"wrote {report}")


app.command(cls=MayUseCluster)(takes_source(tune.tune))
app.command(cls=MayUseCluster)(may_take_source(reproduce.reproduce))
app.command()(violations.violations)
app.command()(explain.explain)
app.add_typer(theory.app, name="theory")


def main() -> None:
    """Run the command line; what the outside world got wrong is one sentence and exit code 2.

    Only an error of setwise itself shows where in the code it happened.
    """
    try:
        app()
    except InputError as error:
        _end(str(error))
    except KeyboardInterrupt:
        show.note("interrupted")
        sys.exit(130)
    except MemoryError:
        _end("the memory is full; take fewer sets (--max-sets), or build a data file")
    except Exception as error:
        from setwise._files import fault, is_of_disk

        if not isinstance(error, OSError) and not is_of_disk(error):
            raise
        name = getattr(error, "filename", None)
        place = f"{name}: " if name else ""
        _end(f"{place}{fault(error)}; check the file, its folder and the room on the disk")


def _end(text: str) -> None:
    show.note(" ".join(f"error: {text}".split()))  # names may hold line breaks
    sys.exit(2)


def _mnl_beside(model: str, estimator: Any, choices: Any) -> Any:
    """The MNL to show beside a model that IIA does not bind; none where it cannot be fitted."""
    from setwise.estimators import CATALOGUE, mnl_beside

    if CATALOGUE[model].about.satisfies_iia:
        return None
    try:
        return mnl_beside(estimator, choices)
    except InputError as error:
        warnings.warn(f"the file has no MNL beside the model: {error}", stacklevel=2)
        return None


def _show_fit(estimator: Any, choices: Any, out: Path, json: bool) -> None:
    """How well the model does on the sets that it held out, and on those that it was fitted to."""
    fitted, held_out = estimator.parts_of_fit(choices)
    apart = None if held_out is None else estimator.evaluate(held_out)
    if json:
        inside = estimator.evaluate(fitted)
        found = {"held_out": apart and _as_json(apart), "in_sample": _as_json(inside)}
        show.as_json({"model": str(out), "sets": len(choices), **found})
        return
    if hasattr(estimator, "summary"):
        print(estimator.summary())
    if apart is not None:
        print(
            f"Measures of the {apart.sets:,} sets that were held out of training. They were used "
            "to stop it,\nso that new sets may do slightly worse."
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
