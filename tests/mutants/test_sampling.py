"""What `make mutants` may change in a module, which changes it draws, and which tests it chooses for them."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from coverage import CoverageData

from tests.mutants import touching
from tests.mutants.__main__ import read_reasons
from tests.mutants.declarations import list_declarations, list_functions
from tests.mutants.operators import Mutant, list_mutants
from tests.mutants.sample import share_out
from tests.mutants.touching import BUDGET, LineMap, MeasuringEnded, hash_code, measure_lines
from tests.mutants.trial import Bench, judge


def change(folder: Path, source: str) -> list[tuple[str, str]]:
    """The operators and the texts of all mutants of a module."""
    (folder / "module.py").write_text(source)
    mutants = list_mutants(folder, "module.py")
    return [(mutant.operator, mutant.apply(source.encode()).decode()) for mutant in mutants]


@pytest.mark.parametrize(
    ("source", "operator", "result"),
    [
        ("x = a < b\n", "comparison", "x = a <= b\n"),
        ("x = a and b\n", "boolean", "x = a or b\n"),
        ("x = a + b\n", "arithmetic", "x = a - b\n"),
        ("x = -a\n", "sign", "x = a\n"),
        ("x = 3\n", "constant", "x = 4\n"),
        ("x = True\n", "constant", "x = False\n"),
        ("x = a['é']\n", "key", "x = a['é_']\n"),
        ("x = {'a': b}\n", "key", "x = {'a_': b}\n"),
        ("f(a, b=c)\n", "argument", "f(a)\n"),
        ("f(a)\n", "statement", "pass\n"),
        ("if a:\n    b = c\n", "condition", "if not a:\n    b = c\n"),
        ("def f(a='b'): return a\n", "default", "def f(a='b_'): return a\n"),
    ],
)
def test_one_thing_is_changed_at_a_time(tmp_path: Path, source: str, operator: str, result: str) -> None:
    assert (operator, result) in change(tmp_path, source)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring that says 3 < 4."""\n',
        "x: Literal[3]\n",
        "def f(a: Literal[3]) -> Literal[4]: return a\n",
        "log.warning('so many: %s', 3)\n",
        "if TYPE_CHECKING:\n    x = 3\n",
        "x = 'a' + b\n",
        "x = f'{3}'\n",
        "x = zip(a, b, strict=True)\n",
    ],
)
def test_what_no_test_need_notice_is_never_changed(tmp_path: Path, source: str) -> None:
    assert change(tmp_path, source) == []


def test_each_package_is_drawn_from_and_large_ones_more() -> None:
    assert share_out(10, {"large": 70, "small": 20, "least": 1}) == {"large": 6, "small": 3, "least": 1}


def make_map(folder: Path, times: dict[str, float], contexts: dict[str, list[int]]) -> LineMap:
    """A map of one run that measured `tests/test_a.py`."""
    run = folder / "0000"
    run.mkdir(parents=True)
    data = CoverageData(str(run / "coverage"))
    for test, lines in contexts.items():
        data.set_context(f"tests/test_a.py::{test}|run")
        data.add_lines({"module.py": lines})
    data.write()
    cases = "".join(f'<testcase file="tests/test_a.py" name="{test}" time="{time}"/>' for test, time in times.items())
    failure = '<testcase file="tests/test_a.py" name="failed" time="1"><failure/></testcase>'
    (run / "tests.xml").write_text(f"<testsuite>{cases}{failure}</testsuite>")
    (run / "modules.json").write_text(json.dumps({"tests/test_a.py": "hash"}))
    return LineMap(folder)


@pytest.fixture
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module whose lines 2 and 3 are a function's body, and 1 and 4 run on import."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "module.py").write_text("def f():\n    x = 1\n    return x\ny = 1\n")


@pytest.mark.usefixtures("_module")
def test_the_tests_of_a_line_that_passed_run_fastest_first_within_a_budget(tmp_path: Path) -> None:
    times = {"slow": 5.0, "fast": 1.0, "endless": 2 * BUDGET, "other": 1.0}
    contexts = {"slow": [3], "fast": [3], "endless": [3], "failed": [3], "other": [4]}
    mutant = Mutant("module.py", "f", "constant", 3, 3, 3, 0, 1, "2")
    tests, total = make_map(tmp_path / "map", times, contexts).choose_tests(mutant)
    assert tests == ["tests/test_a.py::fast", "tests/test_a.py::slow"]
    assert total == 3


@pytest.mark.usefixtures("_module")
def test_of_a_line_that_runs_on_import_the_test_that_imported_it_is_not_the_only_one(tmp_path: Path) -> None:
    line_map = make_map(tmp_path / "map", {"importing": 1.0, "calling": 1.0}, {"importing": [1, 4], "calling": [2, 3]})
    tests, _ = line_map.choose_tests(Mutant("module.py", "", "constant", 4, 4, 4, 0, 1, "2"))
    assert tests == ["tests/test_a.py::importing", "tests/test_a.py::calling"]


@pytest.mark.usefixtures("_module")
def test_tests_that_pass_by_have_a_third_of_the_budget_and_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(touching, "passes_by", lambda test, _mutant: "passing" in test)
    times = {f"naming_{number}": BUDGET / 3 for number in range(4)} | {"passing_0": BUDGET / 4, "passing_1": BUDGET / 4}
    mutant = Mutant("module.py", "f", "constant", 3, 3, 3, 0, 1, "2")
    tests, total = make_map(tmp_path / "map", times, {name: [3] for name in times}).choose_tests(mutant)
    assert [test.partition("::")[2] for test in tests] == ["naming_0", "naming_1", "passing_0"]
    assert total == 6


@pytest.mark.usefixtures("_module")
def test_the_tests_of_its_module_stand_in_for_a_line_that_runs_on_import(tmp_path: Path) -> None:
    line_map = make_map(tmp_path / "map", {"much": 1.0, "little": 1.0}, {"much": [3, 4], "little": [4]})
    tests, _ = line_map.choose_tests(Mutant("module.py", "", "constant", 1, 1, 1, 0, 1, "2"))
    assert tests == ["tests/test_a.py::much", "tests/test_a.py::little"]


@pytest.mark.usefixtures("_module")
def test_of_the_tests_that_stand_in_those_that_take_no_time_come_first(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(touching, "passes_by", lambda test, _mutant: "passing" in test)
    times = {"comparing": 0.0, "passing": 0.0, "calling": BUDGET / 3, "little": BUDGET / 3}
    line_map = make_map(tmp_path / "map", times, {"calling": [2, 3], "little": [3]})
    tests, _ = line_map.choose_tests(Mutant("module.py", "", "constant", 4, 4, 4, 0, 1, "2"))
    assert [test.partition("::")[2] for test in tests] == ["comparing", "calling", "little"]


@pytest.mark.parametrize(
    ("declaration", "dependent", "other"),
    [
        ("X = 1", 9, 5),
        ("class X:\n    y = 1", 10, 6),
        ("def f(x=1):\n    return X(x)", 2, 6),
        ("Y = 1\nclass X:\n    y = Y", 11, 7),
    ],
)
def test_tests_that_run_functions_which_depend_on_a_declaration_come_before_others(
    declaration: str, dependent: int, other: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(touching, "PACKAGES", (".",))
    list_functions.cache_clear()
    list_declarations.cache_clear()
    (tmp_path / "module.py").write_text(f"{declaration}\n\n\ndef g():\n    return 1\n\n\ndef h(a: X):\n    return 2\n")
    line_map = make_map(tmp_path / "map", {"slow": 1.0, "fast": 0.1}, {"slow": [dependent], "fast": [other]})
    line = 2 if declaration.startswith("class") else 1
    tests, _ = line_map.choose_tests(Mutant("module.py", "", "constant", line, line, line, 0, 1, "2"))
    assert tests == ["tests/test_a.py::slow", "tests/test_a.py::fast"]


def test_tests_that_run_what_uses_a_part_of_a_declaration_come_before_those_that_run_what_uses_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(touching, "PACKAGES", (".",))
    list_functions.cache_clear()
    list_declarations.cache_clear()
    source = "X = K(\n    part=1,\n)\n\n\ndef g(a: X):\n    return 1\n\n\ndef h(a):\n    return a.part\n"
    (tmp_path / "module.py").write_text(source)
    line_map = make_map(tmp_path / "map", {"slow": 1.0, "fast": 0.1}, {"slow": [11], "fast": [6, 7]})
    tests, _ = line_map.choose_tests(Mutant("module.py", "", "constant", 2, 2, 2, 0, 1, "2"))
    assert tests == ["tests/test_a.py::slow", "tests/test_a.py::fast"]


def test_where_no_test_runs_a_line_of_a_module_those_that_name_it_and_its_neighbours_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("module.py", "urls.py"):
        (tmp_path / name).write_text("x = 1\n")
    naming = tmp_path / "test_urls.py"
    naming.write_text('Path("urls.py")')
    line_map = make_map(tmp_path / "map", {"neighbour": 1.0, "other": 1.0}, {"neighbour": [3]})
    line_map.times |= {f"{naming}::one": 9.0}
    tests, _ = line_map.choose_tests(Mutant("urls.py", "", "constant", 1, 1, 1, 0, 1, "2"))
    assert tests == [f"{naming}::one", "tests/test_a.py::neighbour"]


def test_a_run_that_was_ended_leaves_no_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest_that_is_killed = tmp_path / "killed"
    pytest_that_is_killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    pytest_that_is_killed.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pytest_that_is_killed))
    monkeypatch.setattr(touching, "CACHE", tmp_path / "maps")
    monkeypatch.setattr(touching, "copy_tree", Path.mkdir)  # these tests may run where there is no git
    with pytest.raises(MeasuringEnded, match="-9"):
        measure_lines()
    assert LineMap(tmp_path / "maps" / hash_code()).list_outdated() == sorted(touching.hash_tests())


def test_a_trial_leaves_the_tree_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path / "0")
    bench.folder.mkdir()
    module = bench.folder / "module.py"
    module.write_text("x = 1\n")
    texts: list[str] = []

    def read_module(tests: list[str], limit: float) -> tuple[int, str]:
        texts.append(module.read_text())
        return 0, ""

    monkeypatch.setattr(bench, "run_tests", read_module)
    bench.try_mutant(Mutant("module.py", "", "constant", 1, 1, 1, 4, 5, "2"), [], 1.0)
    assert texts == ["x = 2\n"]
    assert module.read_text() == "x = 1\n"


@pytest.mark.slow
def test_each_trial_runs_the_module_as_it_is_and_one_that_hangs_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    folder = tmp_path / "0"
    (folder / "tests/mutants").mkdir(parents=True)
    for name in ("tests/__init__.py", "tests/mutants/__init__.py", "tests/mutants/runner.py"):
        shutil.copy(name, folder / name)
    module, test = folder / "module.py", folder / "test_module.py"
    module.write_text("x = 1\n")
    test.write_text("import time, module\n\ndef test_one():\n    assert module.x == 1 or time.sleep(module.x)\n")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    with Bench(folder) as bench:
        assert bench.run_tests([test.name], 60)[0] == 0
        code, output = bench.try_mutant(Mutant("module.py", "", "constant", 1, 1, 1, 4, 5, "0"), [test.name], 60)
        assert code == 1
        assert "FAILED test_module.py::test_one" in output
        hanging = Mutant("module.py", "", "constant", 1, 1, 1, 4, 5, "600")
        assert bench.try_mutant(hanging, [test.name], 2)[0] is None
        assert bench.run_tests([test.name], 60)[0] == 0


MODULE_ERROR = (
    "ERROR tests/test_a.py - TypeError\n1 error in 0.1s\nERROR: found no collectors for /0/tests/test_a.py::one"
)
CASE_ERROR = "no tests ran\nERROR: not found: /0/tests/test_a.py::one\n(no match in any of [<Module test_a.py>])"


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([(0, "")], "survived"),
        ([(1, "FAILED tests/test_a.py::one[2]")], "killed"),
        ([(None, "")], "timed out"),
        ([(4, MODULE_ERROR)], "killed"),
        ([(4, "ImportError while loading conftest")], "killed"),
        ([(4, CASE_ERROR), (0, "")], "survived"),
        ([(4, CASE_ERROR), (1, "FAILED tests/test_a.py::one[3]")], "killed"),
    ],
)
def test_a_verdict_says_what_pytest_answered(
    answers: list[tuple[int | None, str]], outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, names = Bench(tmp_path), ["tests/test_a.py::one[2]", "tests/test_a.py::two"]
    runs: list[list[str]] = []

    def try_mutant(mutant: Mutant, tests: list[str], seconds: float) -> tuple[int | None, str]:
        runs.append(tests)
        return answers[len(runs) - 1]

    monkeypatch.setattr(bench, "try_mutant", try_mutant)
    mutant = Mutant("module.py", "", "constant", 1, 1, 1, 0, 1, "2")
    assert judge(bench, mutant, LineMap(tmp_path), 1.0, names).outcome == outcome
    assert runs == [names, ["tests/test_a.py::one", "tests/test_a.py::two"]][: len(answers)]


def test_a_test_module_that_has_gone_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    monkeypatch.setattr(bench, "try_mutant", lambda *_: (4, "ERROR: file or directory not found: tests/test_a.py"))
    with pytest.raises(RuntimeError, match="not found"):
        judge(
            bench, Mutant("module.py", "", "constant", 1, 1, 1, 0, 1, "2"), LineMap(tmp_path), 1.0, ["tests/test_a.py"]
        )


def test_each_mutant_that_is_listed_as_no_hole_can_be_drawn():
    """Else its reason is of code that has changed since, and has to be thought over."""
    drawn = {
        (mutant.path, mutant.function, *mutant.show_change(Path(path).read_bytes()))
        for path in {module for module, *_ in read_reasons()}
        for mutant in list_mutants(Path(), path)
    }
    assert read_reasons().keys() <= drawn
