"""The house keeps its shape: layers, sizes, and what must not be in it, read from the source."""

import ast
import functools
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "setwise"
LINES_PER_MODULE = 560
LINES_PER_FUNCTION = 60  # its docstring not counted: what a public function explains is no burden

# Imports go down this list, and never sideways. One that may surprise: datasets' generator "sda"
# imports models, inside its functions so that drawing other data needs no JAX; it is downward.
BASE = {"_arguments", "_types", "_shapes", "_executor", "_masked", "_segments", "_errors", "_files",
        "_page", "_tensorfile", "_arrayfile", "_engine", "_trees", "_tree_view",
        "_tree_division", "_tree_masks", "_later"}  # fmt: skip
LAYERS = (
    BASE,
    {"choices", "models"},
    {"datasets", "metrics", "doctor"},
    {"training"},
    {"scoring"},
    {"estimators"},
    {"tuning", "violations", "consequences", "inference", "decide"},
    {"comparison", "auditing"},
    {"reports"},
    {"paper"},
    {"server", "cluster"},
    {"cli"},
    {"__main__"},
)
LAYER = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}

# setwise/__init__.py is the door: it names every room, lazily, and is tested on its own below.
PATHS = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def trees() -> dict[str, ast.Module]:
    """The parsed source of every module."""
    return {module_name(path): ast.parse(path.read_text("utf-8")) for path in PATHS}


def imported(tree: ast.AST) -> set[str]:
    """The modules of setwise that are imported, anywhere: inside functions and for types too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their module in full"
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                if below == "setwise.__version__":
                    continue  # a plain string: no module stands behind it
                found.add(below if below in trees() else node.module or "")
    return {name for name in found if name.partition(".")[0] == "setwise"}


def room(module: str) -> str:
    return module.split(".")[1]


def downward(one: str, other: str) -> bool:
    """Within a room, within the base, or from a layer to a lower one."""
    return one == other or {one, other} <= BASE or LAYER[other] < LAYER[one]


@functools.cache
def imports() -> dict[str, set[str]]:
    """What every module imports."""
    return {module: imported(tree) for module, tree in trees().items()}


def test_every_room_has_a_layer():
    assert {room(module) for module in trees()} <= set(LAYER)


def test_nothing_imports_the_door():
    assert [module for module, found in imports().items() if "setwise" in found] == []


def test_imports_go_down():
    wrong = [
        f"{module} imports {other}"
        for module, found in imports().items()
        for other in found
        if not downward(room(module), room(other))
    ]
    assert wrong == []


def test_a_wrong_import_would_be_seen():
    tree = ast.parse("def f():\n    from setwise import cli\n    import setwise.models.zoo")
    assert imported(tree) == {"setwise.cli", "setwise.models.zoo"}


def test_no_modules_import_each_other_in_a_circle():
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("statement", ["import setwise", "import setwise.cli"])
def test_the_door_and_the_command_line_open_at_once(statement):
    script = (
        f"import sys; {statement}\n"
        "print([name for name in ('jax', 'jinja2', 'polars', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_the_door_lists_exactly_what_it_has():
    import setwise

    assert sorted(setwise.__all__) == sorted([*setwise._HOMES, *setwise._ROOMS])
    for name in setwise.__all__:
        assert getattr(setwise, name) is not None


def test_modules_are_short():
    lines = {
        str(path.relative_to(SOURCE)): len(path.read_text("utf-8").splitlines()) for path in PATHS
    }
    assert {path: n for path, n in lines.items() if n >= LINES_PER_MODULE} == {}


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = function.body[0]
    lines = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    return lines - ((first.end_lineno or 0) - first.lineno + 1)


def test_functions_are_short():
    long = {
        f"{module}.{node.name}": code_lines(node)
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and code_lines(node) >= LINES_PER_FUNCTION
    }
    assert long == {}


def test_no_two_public_classes_share_a_name():
    homes: dict[str, list[str]] = {}
    for module, tree in trees().items():
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def called(tree: ast.AST) -> set[str]:
    """Plain names that are called, such as ``print``."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}


def test_only_the_command_line_prints():
    loud = [m for m, tree in trees().items() if room(m) != "cli" and "print" in called(tree)]
    assert loud == []


def test_no_data_becomes_code():
    dangerous = {"eval", "exec", "compile", "__import__"}
    modules = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    wrong = [f"{module} calls {name}" for module, tree in trees().items()
             for name in called(tree) & dangerous]  # fmt: skip
    for module, tree in trees().items():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{module} imports {name}" for name in names
                      if name.partition(".")[0] in modules]  # fmt: skip
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                wrong.append(f"{module} uses allow_pickle")
    assert wrong == []


def test_every_module_says_what_it_is():
    assert [module for module, tree in trees().items() if not ast.get_docstring(tree)] == []


def test_no_module_is_a_drawer_for_everything():
    drawers = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [m for m in trees() if drawers & {part.strip("_") for part in m.split(".")}] == []


def private_names(tree: ast.AST) -> set[str]:
    """Methods and attributes with one leading underscore that the classes here define."""
    found: set[str] = set()
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(owner):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def private_uses(tree: ast.AST, private: set[str]) -> list[str]:
    """Attributes of these names that are read from anything but ``self`` and ``cls``."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in private
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


def test_other_rooms_use_the_public_protocol_of_estimators():
    of_estimators = [tree for module, tree in trees().items() if room(module) == "estimators"]
    private = set().union(*map(private_names, of_estimators))
    wrong = {
        module: uses
        for module, tree in trees().items()
        if room(module) != "estimators"
        and (uses := private_uses(tree, private - private_names(tree)))
    }
    assert wrong == {}


def test_a_private_use_would_be_seen():
    defined = ast.parse("class A:\n    def _model(self):\n        self._parts = 1")
    used = ast.parse("def f(self, a):\n    return self._model(), a._model(), a._parts, a.fit()")
    assert private_names(defined) == {"_model", "_parts"}
    assert sorted(private_uses(used, {"_model", "_parts"})) == ["a._model", "a._parts"]
