"""Training: what it minimises, when it stops, that it repeats itself, resumes and recovers."""

import dataclasses
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import setwise as sw
from setwise._tensorfile import with_arrays
from setwise.choices import Schema
from setwise.models import ZOO, Sizes
from setwise.training import Options, fit, worse_than_guessing
from setwise.training.stopping import Fit, Stopping

QUICK = Options(epochs=4, learning_rate=1e-2, patience=10)
TO_THE_OPTIMUM = Options(
    epochs=200, batch_size=250, learning_rate=0.1, decay=0.6, weight_decay=0.0, patience=200
)


def encoded(sets=400, items=(2, 6), seed=0):
    choices = sw.datasets.generate("mnl", sets=sets, items=items, features=4, seed=seed).choices
    train, valid = sw.split(choices, (0.7, 0.3))
    schema = Schema.fit(train)
    return schema.encode(train), schema.encode(valid)


def trained(options=QUICK, name="sda_difference", seed=0, data=None, **extra) -> Fit:
    train, valid = data or encoded()
    model = ZOO[name].build(4, Sizes(dimension=4, hidden=8), jax.random.key(seed))
    return fit(model, train, valid, options, seed, **extra)


def weights(result: Fit) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(result.model)]


def same(first: Fit, second: Fit) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_the_same_seed_gives_the_same_bits_and_another_does_not(dropout):
    options = dataclasses.replace(QUICK, dropout=dropout)
    first, again, other = trained(options), trained(options), trained(options, seed=1)
    assert same(first, again)
    assert first.history == again.history
    assert not same(first, other)


def test_training_an_mnl_by_gradients_approaches_newtons_optimum():
    """The compiled loop minimises what it says: the same optimum as the exact solver's."""
    choices = sw.datasets.generate("mnl", sets=1000, items=(2, 6), features=4).choices
    exact = sw.MNL().fit(choices)
    data = exact.schema_.encode(choices)
    result = trained(TO_THE_OPTIMUM, "mnl", data=(data, data))
    best = min(record["nll"] for record in result.history)
    assert best == pytest.approx(-exact.log_likelihood_ / 1000, abs=1e-4)


def test_sample_weights_move_the_optimum_as_in_newton():
    made = sw.datasets.generate("mnl", sets=1000, items=4, features=4)
    weight = np.where(np.arange(1000) % 2, 9.0, 0.1)[made.columns["set_id"]]
    choices = sw.read(
        made.columns | {"w": weight}, set="set_id", chosen="chosen", items=made.items, weight="w"
    )
    exact = sw.MNL().fit(choices)
    data = exact.schema_.encode(choices)
    result = trained(TO_THE_OPTIMUM, "mnl", data=(data, data))
    learned = np.asarray(result.model.F.theta).ravel() / exact.schema_.item_scales
    np.testing.assert_allclose(learned, exact.coef_, atol=0.02)


@pytest.mark.parametrize("decoupled", [True, False])
def test_both_forms_of_weight_decay_are_those_of_adamw_and_of_adam_with_l2(decoupled):
    """Three steps, each on all sets, beside the textbook's in NumPy."""
    train, valid = encoded(sets=100, items=4)
    x = np.asarray(train.items, np.float64).reshape(len(train), 4, 4)
    theta = np.array([1.0, -2.0, 0.5, 3.0])
    start = with_arrays(
        ZOO["mnl"].skeleton(4, Sizes()), {"F.theta": theta.astype(np.float32)[:, None, None]}
    )
    rate, weight_decay, m, v = 0.01, 0.3, np.zeros(4), np.zeros(4)
    for step in (1, 2, 3):
        p = np.exp(x @ theta)
        p /= p.sum(1, keepdims=True)
        chosen = x[np.arange(len(x)), train.chosen]
        gradient = (np.einsum("si,sid->sd", p, x) - chosen).mean(0)
        gradient += 0 if decoupled else weight_decay * theta
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        direction = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
        direction += weight_decay * theta if decoupled else 0
        theta = theta - rate * direction
    options = Options(
        epochs=3, learning_rate=rate, decay=1.0, weight_decay=weight_decay,
        decoupled_weight_decay=decoupled,
    )  # fmt: skip
    result = fit(start, train, valid, options)
    assert result.best_epoch == 2, "what is kept is the model after the third step"
    np.testing.assert_allclose(np.asarray(result.model.F.theta).ravel(), theta, rtol=1e-5)


def test_weight_decay_shrinks_and_learning_rate_decays_every_so_many_epochs():
    data = encoded()
    free = trained(dataclasses.replace(QUICK, weight_decay=0.0), data=data)
    held = trained(dataclasses.replace(QUICK, weight_decay=2.0), data=data)
    size = [sum(float((w**2).sum()) for w in weights(one)) for one in (free, held)]
    assert size[1] < 0.9 * size[0]
    options = Options(learning_rate=1.0, decay=0.5, decay_every=10)
    assert [options.rate(epoch) for epoch in (0, 9, 10, 29, 30)] == [1, 1, 0.5, 0.25, 0.125]


@pytest.mark.parametrize("objective", ["cross_entropy", "pairwise", "listwise"])
def test_every_objective_learns_to_rank(objective):
    options = Options(epochs=40, learning_rate=0.05, objective=objective, stop_on="accuracy")
    choices = sw.datasets.generate("mnl", sets=800, items=5, features=4).choices
    train, valid = sw.split(choices, (0.7, 0.3))
    exact = sw.MNL().fit(train)
    data = exact.schema_.encode(train), exact.schema_.encode(valid)
    result = trained(options, "mnl", data=data)
    accuracy = max(record["accuracy"] for record in result.history)
    # The likelihood's optimum is about 0.5 here, chance 0.2; other losses differ by a few sets.
    assert accuracy > exact.score(valid) - 0.03


@pytest.mark.parametrize("stop_on", ["nll", "accuracy"])
def test_the_best_weights_are_kept_not_the_last(stop_on):
    """A learning rate that grows spoils the model: the kept one has the best epoch's measures."""
    train, valid = encoded()

    class Growing(Options):
        def rate(self, epoch):
            return 0.01 * 3.0**epoch

    options = Growing(epochs=9, stop_on=stop_on, patience=9)
    result = trained(options, "sda", data=(train, valid))
    measured = sw.metrics.measure(
        sw.training.row_log_probabilities(result.model, valid), valid.offsets, valid.chosen
    )
    record = result.history[result.best_epoch]
    assert measured.nll == pytest.approx(record["nll"], abs=1e-6)
    assert measured.top1 == pytest.approx(record["accuracy"], abs=1e-9)
    watched = [r["nll"] if stop_on == "nll" else -r["accuracy"] for r in result.history]
    assert watched[result.best_epoch] == min(watched)
    assert result.best_epoch < len(result.history) - 1


def test_patience_ends_training():
    options = Options(epochs=200, learning_rate=0.3, patience=3)
    result = trained(options)
    assert len(result.history) == result.best_epoch + 1 + 3


def test_stopping_is_a_pure_state_machine():
    state = Stopping.start(np.array([True]))
    assert state.improved.tolist() == [False]
    seen = []
    for loss in (3.0, 2.0, 2.0, 2.5, 1.0):
        state = state.observe(np.array([loss]), np.array([9]), np.array([9]))
        seen.append((state.improved.item(), state.epoch - state.best_epoch.item()))
    assert seen == [(True, 0), (True, 0), (False, 1), (False, 2), (True, 0)]


def test_sizes_in_several_buckets_train_as_well_as_in_one():
    """Sets of 2 and of 60 items need two programs; both kinds are learned."""
    small = sw.datasets.generate("mnl", sets=600, items=2, features=4, seed=1)
    large = sw.datasets.generate("mnl", sets=600, items=60, features=4, seed=2)
    columns = {
        name: np.concatenate([small.columns[name], large.columns[name]]) for name in small.columns
    }
    columns["set_id"] = np.concatenate([small.columns["set_id"], large.columns["set_id"] + 600])
    choices = sw.read(columns, set="set_id", chosen="chosen", items=small.items)
    train, valid = sw.split(choices, (0.7, 0.3))
    schema = Schema.fit(train)
    data = schema.encode(train), schema.encode(valid)
    assert len(sw.choices.bucket(data[0].sizes)) == 2
    options = Options(epochs=40, learning_rate=0.05, weight_decay=0.0)
    result = trained(options, "mnl", data=data)
    exact = sw.MNL().fit(train).evaluate(valid)
    assert min(r["nll"] for r in result.history) == pytest.approx(exact.nll, abs=0.02)


def test_a_diverging_fit_is_told_with_its_remedy():
    with pytest.raises(sw.InputError, match=r"diverged in epoch 0.*learning rate below 1e"):
        trained(dataclasses.replace(QUICK, learning_rate=1e30), "sdw")


class Stop(Exception):
    """A kill, as far as the loop can tell."""


def stop_after(epochs, error):
    def on_epoch(record):
        if record["epoch"] + 1 == epochs:
            raise error

    return on_epoch


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_fit_that_died_resumes_to_the_same_bits(tmp_path, monkeypatch, dropout):
    monkeypatch.setattr("setwise.training.checkpoint.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    options = dataclasses.replace(QUICK, epochs=6, dropout=dropout)
    whole = trained(options)
    for epochs in (1, 3, 4):
        with pytest.raises(Stop):
            trained(options, checkpoint_folder=tmp_path, on_epoch=stop_after(epochs, Stop()))
    seen = []
    resumed = trained(options, checkpoint_folder=tmp_path, on_epoch=lambda r: seen.append(r))
    assert same(whole, resumed)
    assert whole.history == resumed.history
    assert seen[0]["epoch"] == 3  # the fourth epoch's checkpoint was not written: it died before
    finished = trained(options, checkpoint_folder=tmp_path, on_epoch=stop_after(1, Stop()))
    assert same(whole, finished)


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    trained(QUICK, checkpoint_folder=tmp_path)
    with pytest.raises(sw.InputError, match=r"belongs to another fit.*delete"):
        trained(QUICK, checkpoint_folder=tmp_path, seed=5)
    with pytest.raises(sw.InputError, match="belongs to another fit"):
        trained(QUICK, checkpoint_folder=tmp_path, data=encoded(seed=9))


def test_a_checkpoint_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(sw.InputError, match="is a file; name a folder"):
        trained(QUICK, checkpoint_folder=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_ctrl_c_keeps_the_best_model_so_far():
    whole = trained(dataclasses.replace(QUICK, epochs=2))
    stopped = trained(
        dataclasses.replace(QUICK, epochs=50), on_epoch=stop_after(2, KeyboardInterrupt())
    )
    assert stopped.interrupted
    assert same(whole, stopped)


def test_ctrl_c_before_the_first_epoch_ends_is_an_interrupt(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("setwise.training.trainer.Trainer.after", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trained()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be a whole number of at least 1"),
        ({"epochs": 2.5}, "epochs=2.5 must be a whole number of at least 1"),
        ({"batch_size": True}, "batch_size=True must be a whole number"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be a number above 0"),
        ({"learning_rate": "1e-3"}, "learning_rate='1e-3' must be a number above 0"),
        ({"decay": 5}, "decay=5 must be a number above 0 and at most 1"),
        ({"dropout": 1.0}, "dropout=1.0 must be"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0"),
        ({"weight_decay": float("nan")}, "weight_decay=nan"),
        ({"stop_on": "auc"}, "stop_on='auc'"),
        ({"objective": "hinge"}, "objective='hinge'"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_bad_options_are_refused(option, message):
    for kind in (Options, sw.Training):
        with pytest.raises(sw.InputError, match=message):
            kind(**option)


def test_what_training_leaves_out_is_the_default():
    names = [[one.name for one in dataclasses.fields(kind)] for kind in (sw.Training, Options)]
    assert names[0] == names[1]
    defaults = Options(learning_rate=3e-3, dropout=0.1)
    assert sw.Training().over(defaults) == defaults
    assert sw.Training(epochs=7, dropout=0.0).over(defaults) == Options(7, learning_rate=3e-3)
    assert repr(sw.Training(epochs=7, dropout=0.0)) == "Training(epochs=7, dropout=0.0)"
    with pytest.raises(sw.InputError, match="there is no option 'epoch' of training; there are: e"):
        sw.Training().changed(epoch=3)


@pytest.mark.slow
def test_a_killed_command_resumes_to_the_same_file(tmp_path):
    """kill -9 in the middle of `setwise fit --checkpoint`, then the same command."""
    table = tmp_path / "choices.csv"
    sw.datasets.generate("mnl", sets=600, items=(2, 6), features=4).table.write_csv(table)
    base = [
        sys.executable, "-m", "setwise", "fit", str(table), "--set", "set_id", "--chosen", "chosen",
        "--model", "sda", "--epochs", "800", "--patience", "800", "--dimension", "4",
        "--ensemble", "1",
    ]  # fmt: skip

    def command(name):
        return [*base, "--out", str(tmp_path / name), "--checkpoint", str(tmp_path / f"{name}.d")]

    subprocess.run(command("whole"), check=True, capture_output=True)
    for _ in range(2):
        running = subprocess.Popen(command("killed"), stderr=subprocess.DEVNULL)
        checkpoint = tmp_path / "killed.d" / "0.checkpoint"
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and running.poll() is None:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns > before:
                break
            time.sleep(0.05)
        assert running.poll() is None, "the fit ended before it could be killed"
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert not (tmp_path / "killed").exists()
    subprocess.run(command("killed"), check=True, capture_output=True)
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_an_interrupted_command_saves_the_best_model_and_says_so(tmp_path):
    """Ctrl-C in the middle of `setwise fit`: exit code 130, a warning, and a model that loads."""
    table, out, folder = tmp_path / "choices.csv", tmp_path / "model", tmp_path / "state"
    sw.datasets.generate("mnl", sets=300, items=4, features=3).table.write_csv(table)
    running = subprocess.Popen(
        [
            sys.executable, "-m", "setwise", "fit", str(table), "--set", "set_id",
            "--chosen", "chosen", "--model", "sda", "--epochs", "1000000", "--patience", "1000000",
            "--dimension", "2", "--ensemble", "1", "--out", str(out), "--checkpoint", str(folder),
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (folder / "0.checkpoint").exists():
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "warning: training was interrupted" in said
    assert sw.load(out).interrupted_


# Training that fails


UNTRAINED = ZOO["mnl"].build(4, Sizes(), jax.random.key(0))


def failed(nlls, sets=400):
    """What is said of a fit with these validation NLLs, on so many sets of 4 items."""
    choices = sw.datasets.generate("mnl", sets=sets, items=4, features=2).choices
    valid = Schema.fit(choices).encode(choices)
    history = tuple({"nll": nll} for nll in nlls)
    return worse_than_guessing(Fit(UNTRAINED, history, 0), valid)


def test_a_fit_fails_if_equal_chances_would_have_been_clearly_better():
    """log 4 is 1.386, and 400 sets make noise of 0.05."""
    assert failed([1.3, 9.0]) is None
    assert failed([1.6, 1.7]) is None, "within three times the noise and a tenth"
    assert failed([1.7, 1.8]) == 1.7
    assert failed([1.8, 1.7]) is None, "it got better until its epochs ended"
    assert failed([5.0, 4.0]) == 4.0
    assert failed([1.7, 1.8], sets=20) is None, "few sets are noisier"
    assert failed([8.7e9, 9e9], sets=3) == 8.7e9
    assert failed([]) is None


@pytest.mark.parametrize("ensemble", [1, 3])
def test_a_learning_rate_that_is_far_too_large_is_told(ensemble):
    choices = sw.datasets.generate("mnl", sets=300, items=4, features=3).choices
    training = sw.Training(epochs=3, learning_rate=30.0)
    who = "the model" if ensemble == 1 else r"3 of 3 members"
    with pytest.warns(ConvergenceWarning, match=f"training failed: {who} predicted .* below 30,"):
        sw.SDW(2, hidden=4, ensemble=ensemble, training=training).fit(choices)


@pytest.mark.parametrize("seed", range(4))
def test_sound_fits_to_few_sets_are_not_accused(seed):
    rng = np.random.default_rng(seed)
    sets = int(rng.integers(8, 40))
    taken = np.eye(3, dtype=int)[rng.integers(0, 3, sets)].ravel()  # nothing can be learned
    columns = {"s": np.repeat(np.arange(sets), 3), "x": rng.normal(size=3 * sets), "y": taken}
    choices = sw.read(columns, set="s", chosen="y")
    training = sw.Training(epochs=int(rng.choice([1, 20])))
    sw.SDW(4, hidden=4, training=training, seed=seed).fit(choices)  # warnings are errors


def test_without_a_number_to_stop_on_there_is_no_model(monkeypatch):
    nothing = np.full((1, 1), np.nan)
    monkeypatch.setattr(
        "setwise.training.trainer.Validation.__call__", lambda *_: (nothing, nothing)
    )
    with pytest.raises(sw.InputError, match="training gave no model: the validation nll was not"):
        trained()
