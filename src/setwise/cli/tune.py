"""The command ``setwise tune``."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from setwise._errors import InputError
from setwise.cli import show
from setwise.cli.cluster import Cluster
from setwise.cli.cluster import executor as executor_of
from setwise.cli.source import (
    EPOCHS_HELP,
    SPLIT_BY_HELP,
    Json,
    Preset,
    Source,
    SpaceName,
    SplitBy,
    seed_option,
)

if TYPE_CHECKING:
    from setwise.comparison.comparison import TunedSplit
    from setwise.tuning import Space

SPACES = {"default": None, "paper": "paper"}
"""The search space of a preset; None leaves it to the model."""

STORAGE = "setwise-studies.sqlite"
STORAGE_HELP = (
    "SQLite file that keeps the trials, or the URL of a database that several machines share "
    "(postgresql://...). After a kill, the same command resumes."
)
PRUNING_HELP = "Networks: stop trials early that are worse than the median of the others."
SEED_HELP = "Seed of the splits, the initial weights, the order of sets and the trials."
SPACE_HELP = (
    "Search space. Default: training for networks (paper with --preset paper), trees for "
    "boosted_logit, lambdamart for lambdamart. Other models have none: use --vary."
)
BATCH_HELP = (
    "Most trials that are proposed together. Default: for networks, which train them together, 8, "
    "on a GPU 20; for other models 1."
)
VARY_HELP = (
    "Add an argument to the search space, or change its range: 'name=low..high', "
    "'name=low..high log' or 'name=value,value'. May be repeated."
)


def tune(
    source: Source,
    model: Annotated[str, typer.Option(help="Name of a model; see 'setwise models'.")] = "sda",
    trials: Annotated[int, typer.Option(help="Number of settings to try per split.")] = 100,
    space: Annotated[SpaceName | None, typer.Option(help=SPACE_HELP)] = None,
    vary: Annotated[list[str] | None, typer.Option(help=VARY_HELP)] = None,
    batch: Annotated[
        int | None,
        typer.Option(help=BATCH_HELP),
    ] = None,
    pruning: Annotated[bool, typer.Option("--pruning", help=PRUNING_HELP)] = False,
    epochs: Annotated[int | None, typer.Option(help=EPOCHS_HELP)] = None,
    splits: Annotated[int, typer.Option(help="Number of random 50:25:25 splits.")] = 1,
    split_by: Annotated[SplitBy, typer.Option(help=SPLIT_BY_HELP)] = "set",
    preset: Annotated[
        Preset,
        typer.Option(help="Sizes, stopping rule and search space: setwise's or the paper's."),
    ] = "default",
    storage: Annotated[str, typer.Option(help=STORAGE_HELP)] = STORAGE,
    out: Annotated[
        Path | None, typer.Option(help="Model file to write: the best model of the first split.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="SVG picture to write, of all trials.")] = None,
    cluster: Cluster = None,
    seed: Annotated[int, seed_option(SEED_HELP)] = 0,
    json: Json = False,
) -> None:
    """Find the best hyper-parameters of a model on a validation part, and test them.

    Each split is tuned on its own training and validation parts. Its test part is used once, for
    the best setting. A batch of trials of a network trains as one program, for all splits at once.
    Other models, such as boosted_logit, are fitted once per trial.

    For an ensemble, such as sda, every trial trains all of its models; --vary ensemble=1 tunes one.

    Example: setwise tune swissmetro --model sda --vary ensemble=1 --trials 50 --out tuned.setwise
    """
    from setwise._files import check_outputs, check_writable, kept_elsewhere
    from setwise.comparison.comparison import tune_splits
    from setwise.estimators import named
    from setwise.tuning import Tuning, default_space, tunable, with_arguments

    check_outputs([out, plot, storage_file(storage)], source.reads())
    for path, kind in ((out, ".setwise"), (plot, ".svg")):
        if path is not None:
            check_writable(path, kind=kind)
    estimator = tunable(named(model, preset))
    given = _space(space or SPACES[preset] or default_space(estimator), vary or [])
    tuning = Tuning(trials, given, batch, pruning, storage, seed)
    ranges = tuning.space_of(estimator)
    if epochs is not None:
        estimator = with_arguments(estimator, {"epochs": epochs})
    _say_what_trials_train(getattr(estimator, "ensemble", 1), ranges, model)
    choices = source.read(seed)
    show.dropped(choices)
    with executor_of(cluster) as executor, show.counting_bar("trials") as on_trials:
        done = tune_splits(
            estimator, choices, splits=splits, seed=seed, split_by=split_by, tuning=tuning,
            on_trials=on_trials, executor=executor,
        )  # fmt: skip
    if json:
        show.as_json([_as_json(one) for one in done])
    else:
        _show(done, model)
    if plot is not None:
        _draw(done, plot)
    if out is not None:
        kept_elsewhere(done[0].tuned.estimator.save, out, "tuned model")
        show.note(f"wrote {out}")


def storage_file(storage: str) -> str | None:
    """The file of the studies; None if they are in a database."""
    return None if "://" in storage else storage


def _say_what_trials_train(ensemble: int, space: "Space", model: str) -> None:
    if ensemble > 1 and "ensemble" not in space:
        show.note(
            f"every trial trains the {ensemble} models of {model}; --vary ensemble=1 tunes one"
        )


def _space(name: str | None, vary: list[str]) -> "Space | None":
    """The space of this name with what is varied beside; None if there is neither."""
    from setwise import tuning

    given = [tuning.parse(text) for text in vary]
    for argument, count in Counter(argument for argument, _ in given).items():
        if count > 1:
            raise InputError(
                f"--vary names {argument} {count} times; give all of its values at once"
            )
    space = {} if name is None else dict(tuning.SPACES[name])
    return space | dict(given) or None


def _draw(done: "list[TunedSplit]", plot: Path) -> None:
    from setwise._files import whole_file
    from setwise.reports.figures import tuning_history

    with whole_file(plot) as part:
        part.write_text(tuning_history([one.tuned for one in done]), "utf-8")
    show.note(f"wrote {plot}")


def _show(done: "list[TunedSplit]", model: str) -> None:
    measure = done[0].tuned.measure
    rows = [
        (
            str(one.split + 1),
            ", ".join(f"{name} {_brief(value)}" for name, value in one.tuned.values.items()),
            f"{one.tuned.value:.4f}",
            f"{100 * one.test.top1:.2f}",
            f"{one.test.nll:.4f}",
        )
        for one in done
    ]
    heads = ("split", "best setting", f"validation {measure}", "test top-1 %", "test NLL")
    show.table(heads, rows, title=f"{model}: {len(done[0].tuned.trials):,} trials per split")
    reasons = [trial.failed for one in done for trial in one.tuned.trials if trial.failed]
    if reasons:
        show.note(f"{len(reasons):,} trials failed, the first because: {reasons[0]}")


def _brief(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _as_json(one: "TunedSplit") -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "split": one.split,
        "study": one.tuned.study,
        "best": one.tuned.values,
        one.tuned.measure: one.tuned.value,
        "test": dict(one.test),
        "seconds": one.seconds,
        "trials": [asdict(trial) for trial in one.tuned.trials],
    }
