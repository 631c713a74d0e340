"""Progress of fits: a bar on a terminal and in a notebook, lines elsewhere, nothing unasked."""

import io
import sys
import types

import pytest

import setwise as sw
from setwise.training import progress
from setwise.training.progress import Stand, drawn, in_notebook, lines


class Clock:
    """Time that passes only when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Display:
    """IPython.display, which remembers what a cell shows."""

    def __init__(self):
        self.cells = []

    def HTML(self, text):
        return text

    def display(self, text, display_id):
        assert display_id is True
        self.cells.append([text])
        return types.SimpleNamespace(update=self.cells[-1].append)


def told(done, state="loss 1.0000"):
    return Stand("SDW", "epoch", 50, done, state)


@pytest.fixture
def notebook(monkeypatch):
    """A kernel, as far as this package looks at one; returns what its cells show."""
    shell = types.SimpleNamespace(kernel=object())
    ipython, shown = types.ModuleType("IPython"), Display()
    ipython.get_ipython = lambda: shell
    module = types.ModuleType("IPython.display")
    module.HTML, module.display = shown.HTML, shown.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown


def test_lines_are_the_first_the_last_and_few_between():
    stream, clock = io.StringIO(), Clock()
    with lines(stream, seconds=10.0, clock=clock) as tell:
        for epoch in range(51):
            clock.now = epoch * 0.5
            tell(told(epoch))
    assert stream.getvalue().splitlines() == [
        "SDW  epoch 0/50  loss 1.0000  0 s",
        "SDW  epoch 20/50  loss 1.0000  10 s",
        "SDW  epoch 40/50  loss 1.0000  20 s",
        "SDW  epoch 50/50  loss 1.0000  25 s",
    ]


def test_the_last_line_is_not_repeated():
    stream, clock = io.StringIO(), Clock()
    with lines(stream, seconds=10.0, clock=clock) as tell:
        tell(told(0))
        clock.now = 10.0
        tell(told(50))
    assert len(stream.getvalue().splitlines()) == 2


def test_the_last_line_comes_when_a_fit_fails():
    stream = io.StringIO()
    writing = lines(stream, clock=iter([0.0, 1.0]).__next__)
    tell = writing.__enter__()
    tell(told(0))
    tell(told(7))
    writing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert stream.getvalue().splitlines()[-1] == "SDW  epoch 7/50  loss 1.0000  1 s"


def test_lines_without_a_stand_are_none():
    stream = io.StringIO()
    with lines(stream):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize("wanted", [True, None, False])
def test_a_fit_without_a_terminal_writes_lines_if_asked(capsys, wanted):
    choices = sw.datasets.generate("mnl", sets=60, items=3, features=2).choices
    model = sw.SDW(dimension=2, hidden=4, ensemble=1, training=sw.Training(epochs=2))
    model.fit(choices, progress=wanted)
    written = capsys.readouterr().err.splitlines()
    assert bool(written) is (wanted is True)
    if wanted:
        assert written[0].startswith("SDW  epoch 0/2  compiling …")
        assert written[-1].startswith("SDW  epoch 2/2  loss ")


def test_an_ensemble_writes_lines_if_asked(capsys):
    choices = sw.datasets.generate("mnl", sets=60, items=3, features=2).choices
    model = sw.SDW(dimension=2, hidden=4, ensemble=2, training=sw.Training(epochs=2))
    model.fit(choices, progress=True)
    assert capsys.readouterr().err.splitlines()[-1].startswith("SDW  model 2/2  0 training")


@pytest.mark.parametrize("wanted", [True, None])
def test_a_terminal_has_a_bar(monkeypatch, wanted):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with drawn(wanted) as draw:
        draw(told(3))
    assert "epoch 3/50" in stream.getvalue()
    assert "None" not in stream.getvalue()  # as the total of a fit that has not begun


@pytest.mark.parametrize("wanted", [True, None])
def test_a_notebook_has_a_bar(notebook, capsys, monkeypatch, wanted):
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock)
    with drawn(wanted) as draw:
        for epoch in range(51):
            clock.now = epoch * 0.01
            draw(told(epoch, "<b>loss"))
    [cell] = notebook.cells
    assert '<progress value="0" max="50">' in cell[0]
    assert '<progress value="50" max="50">' in cell[-1]
    assert "epoch 50/50 &nbsp; &lt;b&gt;loss" in cell[-1]
    assert len(cell) <= 5  # half a second: not a message an epoch
    assert capsys.readouterr().err == ""


def test_a_notebook_shows_nothing_unwanted(notebook):
    with drawn(False) as draw:
        assert draw is None
    assert notebook.cells == []


def test_a_shell_on_a_terminal_is_no_notebook(monkeypatch):
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not in_notebook()
    ipython.get_ipython = lambda: None
    assert not in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()


@pytest.mark.usefixtures("unchecked_types")
def test_progress_is_true_false_or_none():
    choices = sw.datasets.generate("mnl", sets=20, items=3, features=2).choices
    with pytest.raises(sw.InputError, match="progress='yes' must be True or False"):
        sw.SDW(2).fit(choices, progress="yes")
