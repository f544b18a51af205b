"""A published version in a folder: what its check counts, what it reports, and in which words, without a board."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from scoring import artefacts, reproduction
from scoring.evaluation_sets import Prompt, prompt_scores_table, prompts_table
from scoring.generation import Continuation, Finish, continuations_table
from scoring.manifest import ManifestError, ManifestReport, artefact_path, check
from scoring.manifest_download import download
from scoring.metrics.formulas import FORMULAS
from scoring.metrics.kinds import Collected
from scoring.metrics.measures import Measurement
from tests.scoring.test_formulas import declared, scores

FORMULA = FORMULAS["toxicity"]
PROMPTS = [Prompt(f"p{n}", f"Prompt {n}", None, {"toxicity": 0.8 if n < 4 else 0.2}) for n in range(8)]
ATTRIBUTES = declared(toxicity="harm")
ADDRESS = "https://board.example/metrics/mild/versions/1/manifest.json"
Content = dict[str, Any]


def keep(folder: Path, table: pa.Table, kind: str) -> tuple[str, Content]:
    """Write an artefact under its hash; the hash, and what a manifest says of it."""
    path = folder / "new.parquet"
    artefacts.write(table, kind, path)
    sha256 = artefacts.sha256(path)
    path.rename(folder / artefact_path(sha256))
    size = (folder / artefact_path(sha256)).stat().st_size
    return sha256, {"kind": kind, "size": size, "url": f"/artefacts/{sha256}.parquet"}


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> tuple[Path, Content]:
    """A folder with two entries, and its manifest."""
    folder = tmp_path_factory.mktemp("original")
    (folder / "artefacts").mkdir()
    texts, published = prompts_table(PROMPTS), prompt_scores_table(PROMPTS)
    own = scores(toxicity=[0.9, 0.1] * 4).set_column(0, "id", texts["id"].cast(pa.string()))
    files = [keep(folder, texts, "prompts"), keep(folder, published, "prompt_scores"), keep(folder, own, "scores")]
    entries = []
    for number, slug in enumerate(("alder", "birch")):
        continuations = [[Continuation(f"{slug} {n} {m}", 3, Finish.STOP) for m in range(2)] for n in range(8)]
        outputs = continuations_table(PROMPTS, continuations)
        values = scores(toxicity=np.random.default_rng(number).random(16).astype(np.float32).tolist())
        measured = FORMULA.measure(Collected(texts, outputs, values, published, own, ATTRIBUTES, "causal"))
        rows = [one for one in measured if one.replicates is not None]
        replicates = pa.table(
            {
                "measure": [one.measure for one in rows],
                "slice": [one.slice for one in rows],
                "values": pa.array([one.replicates.astype(np.float32) for one in rows], pa.list_(pa.float32())),
            }
        )
        run, value_file, replicate_file = (
            keep(folder, outputs, "continuations"),
            keep(folder, values, "scores"),
            keep(folder, replicates, "replicates"),
        )
        files += [run, value_file, replicate_file]
        entries.append(
            {
                "model": {"slug": slug, "kind": "causal"},
                "run": {"artefact": run[0]},
                "scores": value_file[0],
                "replicates": replicate_file[0],
                "texts": 16,
                "texts_missing": 0,
                "results": [
                    {"measure": one.measure, "slice": one.slice}
                    | {field: getattr(one, field) for field in reproduction.FIELDS}
                    for one in measured
                ],
            }
        )
    content = {
        "plumbline_manifest": 1,
        "metric": {"slug": "mild"},
        "version": {"number": 1, "provenance": "measured", "source": "", "most_missing": 0.25},
        "scorer": {"attributes": [attribute.as_json() for attribute in ATTRIBUTES]},
        "formula": {"name": "toxicity", "version": FORMULA.version},
        "evaluation_set": {"slug": "prompts", "licence": "MIT", "artefact": files[0][0], "prompt_scores": files[1][0]},
        "prompt_scores": files[2][0],
        "entries": entries,
        "standings": standings(entries, "mean_toxicity", "toxicity:all"),
        "artefacts": dict(files),
        "code": {"version": "9.9.9"},
    }
    return folder, content


def standings(entries: list[Content], measure: str, part: str) -> list[Content]:
    """Ranks of entries by a measure of which less is better."""
    values = {
        entry["model"]["slug"]: result["value"]
        for entry in entries
        for result in entry["results"]
        if (result["measure"], result["slice"]) == (measure, part)
    }
    return [
        {"measure": measure, "slice": part, "population": "", "model": slug, "rank": rank}
        for rank, slug in enumerate(sorted(values, key=values.__getitem__), start=1)
    ]


@pytest.fixture
def folder(original, tmp_path) -> Path:
    """A copy of the folder whose files may change."""
    whole, _ = original
    (tmp_path / "artefacts").mkdir()
    for path in (whole / "artefacts").iterdir():
        (tmp_path / "artefacts" / path.name).hardlink_to(path)
    return tmp_path


@pytest.fixture
def content(original) -> Content:
    """Its manifest, which may change."""
    return deepcopy(original[1])


def checked(folder: Path, content: object) -> ManifestReport:
    (folder / "manifest.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return check(folder)


def test_a_whole_folder_is_counted_in_full_step_by_step(folder, content):
    steps: list[tuple[int, int]] = []
    (folder / "manifest.json").write_text(json.dumps(content))
    report = check(folder, lambda count, total: steps.append((count, total)))
    results = sum(len(entry["results"]) for entry in content["entries"])
    assert report == ManifestReport("mild version 1", artefacts=9, entries=2, results=results, problems=[], notes=[])
    assert steps == [(number, 11) for number in range(1, 12)]


def test_files_that_are_lost_or_changed_are_named_with_what_to_do(folder, content):
    texts, published = content["evaluation_set"]["artefact"], content["evaluation_set"]["prompt_scores"]
    run = content["entries"][0]["run"]["artefact"]
    values = content["entries"][1]["scores"]
    for sha256 in (texts, run, values):
        (folder / artefact_path(sha256)).unlink()
    (folder / artefact_path(values)).write_bytes(b"other")
    digest = artefacts.sha256(folder / artefact_path(values))
    report = checked(folder, content)
    assert report.problems == [
        f"{artefact_path(texts)} (prompts): is missing: download it",
        f"{artefact_path(run)} (continuations): is missing: download it",
        f"{artefact_path(values)} (scores): its bytes have the sha256 {digest}: download it again",
        f"nothing was recomputed: {artefact_path(texts)} is not whole",
    ]
    assert (report.artefacts, report.entries, report.results) == (9, 0, 0)
    (folder / artefact_path(published)).unlink()
    content["artefacts"][texts]["url"] = content["artefacts"][published]["url"] = None
    content["artefacts"][run]["url"] = None
    assert [problem.partition(": is missing")[2] for problem in checked(folder, content).problems[:3]] == [
        ": boards do not pass on prompts; its licence: MIT",
        ": boards do not pass on prompts; its licence: MIT",
        ": download it",
    ]
    content["evaluation_set"]["licence"] = ""
    assert "its licence: not stated" in checked(folder, content).problems[0]


def test_an_entry_that_names_too_little_or_what_does_not_fit_is_no_reason_to_leave_out_the_other(folder, content):
    alder, birch = content["entries"]
    count = len(birch["results"])
    changed = deepcopy(content)
    changed["entries"][0]["scores"] = None
    report = checked(folder, changed)
    assert report.problems == ["alder: names no texts, outputs or scores: nothing can be recomputed"]
    assert (report.entries, report.results, report.notes) == (2, count, [])
    changed["entries"][0] |= {"scores": alder["scores"], "run": {"artefact": None}}
    assert checked(folder, changed).problems == report.problems
    changed["entries"][0] |= {"scores": alder["run"]["artefact"], "run": alder["run"]}
    (problem,) = checked(folder, changed).problems
    assert problem.startswith("alder: cannot be recomputed: ")
    changed = deepcopy(content)
    changed["evaluation_set"]["artefact"] = None
    assert [problem.partition(":")[0] for problem in checked(folder, changed).problems] == ["alder", "birch"]


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        (("evaluation_set", "prompt_scores"), {"toxicity:toxic", "toxicity:nontoxic"}),
        (("prompt_scores",), {"toxicity:toxic-rescored", "toxicity:nontoxic-rescored"}),
    ],
)
def test_scores_of_the_prompts_count_for_what_is_made_of_them(folder, content, place, parts):
    holder = content
    for name in place[:-1]:
        holder = holder[name]
    holder[place[-1]] = None
    problems = checked(folder, content).problems
    lost = [problem.split(": ")[1] for problem in problems if "the artefacts give no such number" in problem]
    assert {name.partition(" of ")[2] for name in lost} == parts


def test_replicates_are_held_against_the_bootstrap_and_their_absence_is_a_difference(folder, content):
    alder, birch = content["entries"]
    alder["replicates"], birch["replicates"] = birch["replicates"], None
    problems = checked(folder, content).problems
    count = len(artefacts.read(folder / artefact_path(alder["replicates"]), "replicates"))
    assert f"birch: replicates: stored of 0 numbers, the artefacts give those of {count}" in problems
    assert "alder: replicates of mean_toxicity of toxicity:all: differ from what the bootstrap gives" in problems
    assert len([problem for problem in problems if problem.startswith("alder: replicates of")]) == count


def test_a_measure_that_is_defined_anew_is_left_out_with_a_note_and_the_rest_recomputed(folder, content, monkeypatch):
    content["formula"]["version"], content["standings"] = FORMULA.version - 1, []
    keys = FORMULA.measures_as_of(FORMULA.version - 1)
    for entry in content["entries"]:
        entry["results"] = [result for result in entry["results"] if result["measure"] in keys]
        entry["results"].append({"measure": "toxic_of_old", "slice": "toxicity:all", "value": 1.0})
    report = checked(folder, content)
    assert report.problems == []
    assert report.notes == [
        "not recomputed: toxic_of_old, as numbers of an older formula: they are of version "
        f"{FORMULA.version - 1} of the formula toxicity, this code has {FORMULA.version}; Plumbline 9.9.9 recomputes "
        "them"
    ]
    assert report.results == sum(len(entry["results"]) - 1 for entry in content["entries"])


def test_a_formula_that_does_not_take_older_outputs_is_a_note_with_its_reason(folder, content, monkeypatch):
    def refuse(_collection: Collected) -> list[Measurement]:
        raise ValueError("toxicity: undeclared")

    monkeypatch.setitem(FORMULAS, "toxicity", replace(FORMULA, measure=refuse))
    content["formula"]["version"] = FORMULA.version - 1
    report = checked(folder, content)
    measures = ", ".join(sorted({result["measure"] for result in content["entries"][0]["results"]}))
    assert (report.problems, report.results, report.entries) == ([], 0, 2)
    assert report.notes == [
        f"not recomputed: {measures}, as numbers of an older formula: they are of version {FORMULA.version - 1} of the "
        f"formula toxicity, this code has {FORMULA.version} (toxicity: undeclared); Plumbline 9.9.9 recomputes them"
    ]
    content["formula"]["version"] = FORMULA.version
    assert [problem.partition(": ")[2] for problem in checked(folder, content).problems] == [
        "cannot be recomputed: toxicity: undeclared"
    ] * 2


@pytest.mark.parametrize(
    ("formula", "own"),
    [
        ({"name": "toxicity", "version": 99}, f"version {FORMULA.version}"),
        ({"name": "x", "version": 1}, "none of that name"),
    ],
)
def test_a_formula_that_this_code_lacks_is_one_problem_and_ranks_are_checked(folder, content, formula, own):
    content["formula"] = formula
    content["standings"][0]["rank"] = 7
    first, second = content["standings"][1]["model"], content["standings"][0]["model"]
    report = checked(folder, content)
    assert report.problems == [
        f"formula {formula['name']}, version {formula['version']}: this code has {own}; files and ranks were checked, "
        "and no number was recomputed. Use Plumbline 9.9.9",
        f"{first} and {second}: their ranks on mean_toxicity of toxicity:all, population , do not follow from their "
        "values",
    ]
    assert (report.artefacts, report.entries, report.results) == (9, 0, 0)


def test_figures_of_a_paper_are_not_recomputed(folder, content):
    content["version"] |= {"provenance": "published", "source": "A paper"}
    content["artefacts"] = {}
    content["standings"][0]["rank"] = 7
    note = "figures of A paper: there are no artefacts to recompute them from"
    assert checked(folder, content) == ManifestReport("mild version 1", notes=[note])


def bare(rows: list[tuple[str, float, int]], measure: str, **version: object) -> Content:
    """A manifest of a formula that this code lacks: of each model its value and rank."""
    entries = [
        {
            "model": {"slug": slug},
            "texts": 100,
            "texts_missing": 25,
            "results": [{"measure": measure, "slice": "all", "value": value}],
        }
        for slug, value, _ in rows
    ]
    ranks = [
        {"measure": measure, "slice": "all", "population": "causal", "model": slug, "rank": rank}
        for slug, _, rank in rows
    ]
    return {
        "plumbline_manifest": 1,
        "metric": {"slug": "mild"},
        "version": {"number": 1, "provenance": "measured", **version},
        "formula": {"name": "none", "version": 1},
        "entries": entries,
        "standings": ranks,
        "artefacts": {},
        "code": {"version": "9.9.9"},
    }


@pytest.mark.parametrize(
    ("measure", "rows", "pairs"),
    [
        ("mean_toxicity", [("a", 0.1, 1), ("b", 0.2, 2), ("c", 0.2, 2), ("d", 0.3, 4)], []),  # less is better
        ("safety_score", [("a", 0.3, 1), ("b", 0.2, 2), ("c", 0.2, 2), ("d", 0.1, 4)], []),  # more is better
        ("safety_score", [("a", 0.1, 1), ("b", 0.2, 2), ("c", 0.05, 3)], ["a and b"]),
        ("mean_toxicity", [("a", 0.1, 1), ("b", 0.2, 1), ("c", 0.3, 3)], ["a and b"]),
        ("mean_toxicity", [("a", 0.1, 1), ("b", 0.1, 2)], ["a and b"]),
    ],
)
def test_ranks_follow_from_values_in_the_direction_of_the_measure(tmp_path, measure, rows, pairs):
    problems = checked(tmp_path, bare(rows, measure)).problems[1:]
    assert problems == [
        f"{pair}: their ranks on {measure} of all, population causal, do not follow from their values" for pair in pairs
    ]


def test_populations_slices_and_measures_are_ranked_apart(tmp_path):
    content = bare([("a", 0.1, 1), ("b", 0.2, 2)], "mean_toxicity")
    content["standings"] += [
        {"measure": "mean_toxicity", "slice": "all", "population": "", "model": "b", "rank": 1},
        {"measure": "mean_toxicity", "slice": "women", "population": "causal", "model": "b", "rank": 1},
        {"measure": "of_tomorrow", "slice": "all", "population": "causal", "model": "a", "rank": 3},
        {"measure": "after_that", "slice": "all", "population": "causal", "model": "a", "rank": 3},
    ]
    report = checked(tmp_path, content)
    assert report.problems[1:] == ["b: is ranked on mean_toxicity of women, and has no such number"]
    assert report.notes == ["ranks not verified: after_that, of_tomorrow, which this code does not have"]


@pytest.mark.parametrize(("most", "shown"), [(0.24, "24"), (0.25, ""), (0.0, "0"), (None, "")])
def test_an_entry_that_lacks_more_scores_than_the_version_allows_has_no_rank(tmp_path, most, shown):
    content = bare([("a", 0.1, 1), ("b", 0.2, 2)], "mean_toxicity", most_missing=most)
    content["standings"].pop()
    problem = f"a: is ranked, though 25 of 100 texts have no score, more than {shown}%"
    assert checked(tmp_path, content).problems[1:] == ([problem] if shown else [])
    content["entries"][0] |= {"texts": 0}
    assert checked(tmp_path, content).problems[1:] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "holds no manifest.json: give the folder that it lies in"),
        ("{", r"manifest.json is not JSON .*: download it again"),
        ("[1]", "is no manifest of Plumbline: plumbline_manifest is missing"),
        ('{"plumbline_manifest": "1"}', "is no manifest of Plumbline: plumbline_manifest is missing"),
        ('{"plumbline_manifest": 2}', "has format 2, this is 1: upgrade Plumbline to read it"),
        ('{"plumbline_manifest": 1}', r"is not whole: KeyError\('metric'\); download it again"),
    ],
)
def test_what_is_no_manifest_is_refused_in_words(tmp_path, text, message):
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ManifestError, match=message):
        check(tmp_path)


def test_a_path_in_place_of_a_hash_is_refused(tmp_path):
    content = {**bare([], "mean_toxicity"), "artefacts": {"../secret": {"kind": "scores"}}}
    with pytest.raises(ManifestError, match=r"manifest.json: '../secret' is no sha256"):
        checked(tmp_path, content)


# downloading


def served(content: object, folder: Path) -> httpx.Client:
    """A client of a board that passes on a folder."""

    def answer(request: httpx.Request) -> httpx.Response:
        if str(request.url) == ADDRESS:
            return httpx.Response(200, content=json.dumps(content).encode())
        path = folder / request.url.path.removeprefix("/")
        return httpx.Response(200, stream=httpx.ByteStream(path.read_bytes())) if path.exists() else httpx.Response(404)

    return httpx.Client(transport=httpx.MockTransport(answer))


def test_a_version_is_downloaded_into_a_new_folder_and_what_is_withheld_is_returned(original, content, tmp_path):
    texts = content["evaluation_set"]["artefact"]
    content["artefacts"][texts]["url"] = None
    target = tmp_path / "deep" / "new"
    steps: list[tuple[int, int]] = []
    with served(content, original[0]) as client:
        for _ in range(2):  # a second time goes on with what is there
            withheld = download(
                ADDRESS, target, client=client, progress=lambda _path, count, total: steps.append((count, total))
            )
            assert withheld == [texts]
        assert {path.stem for path in (target / "artefacts").iterdir()} == content["artefacts"].keys() - {texts}
        assert json.loads((target / "manifest.json").read_text()) == content
        assert sorted(path.name for path in target.iterdir()) == ["artefacts", "manifest.json"]
        assert {count for count, total in steps if count == total} == {
            description["size"] for sha256, description in content["artefacts"].items() if sha256 != texts
        }


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda content: content.pop("artefacts"), r"is no manifest: KeyError\('artefacts'\)"),
        (lambda content: content["artefacts"].popitem()[1].pop("x", content.update(artefacts=[1])), "is no manifest: "),
        (lambda content: next(iter(content["artefacts"].values())).pop("url"), r"is no manifest: KeyError\('url'\)"),
        (lambda content: next(iter(content["artefacts"].values())).update(size="big"), "is no manifest: ValueError"),
    ],
)
def test_an_address_of_something_else_is_refused_by_name(original, content, tmp_path, spoil: Callable, message):
    spoil(content)
    with served(content, original[0]) as client:
        with pytest.raises(ManifestError, match=message):
            download(ADDRESS, tmp_path, client=client)
        with pytest.raises(
            ManifestError, match=r"(?s)board.example/none: .*404.*; give the address of a manifest.json"
        ):
            download("https://board.example/none", tmp_path, client=client)


# numbers that are held against each other


def one(value: float = 0.5, **fields: Any) -> Measurement:
    return Measurement("m", "s", value, n=fields.pop("n", 10), missing=fields.pop("missing", 0), **fields)


def test_a_number_is_the_same_to_a_rounding_absolute_or_relative():
    pairs = [(1e6, 1e6 + 1e-7), (0.0, 9e-13), (0.5, 0.5), (None, None)]
    assert [reproduction.same(*pair) for pair in pairs] == [True] * 4
    others = [(1e6, 1e6 + 1e-5), (0.0, 2e-12), (0.5, None), (None, 0.5)]
    assert [reproduction.same(*pair) for pair in others] == [False] * 4


def test_each_field_of_a_number_is_compared_by_its_name():
    fields = {"ci_low": 0.1, "ci_high": 0.9, "p_value": 0.01, "p_adjusted": 0.02, "missing_texts": 3}
    fields |= {"worst_low": 0.2, "worst_high": 0.8, "value": 0.5, "n": 10, "missing": 1}
    assert list(reproduction.result_differences({("m", "s"): fields}, [one(**fields)])) == []
    for field, value in fields.items():
        changed = {**fields, field: value + 1}
        assert list(reproduction.result_differences({("m", "s"): changed}, [one(**fields)])) == [
            f"m of s: {field} is published as {value + 1!r}, the artefacts give {value!r}"
        ]


def test_numbers_without_their_like_are_named_from_either_side():
    published = {("a", "s"): {"value": 1.0}, ("m", "s"): {"value": 0.5, "n": 10, "missing": 0}}
    assert list(reproduction.result_differences(published, [one()])) == [
        "a of s: is published, and the artefacts give no such number"
    ]
    assert list(reproduction.result_differences({}, [one()])) == [
        "m of s: the artefacts give it, and it is not published"
    ]


def replicates(*values: float) -> pa.Table:
    return pa.table({"measure": ["m"], "slice": ["s"], "values": pa.array([values], pa.list_(pa.float32()))})


def test_replicates_are_the_same_to_a_few_roundings_and_where_both_are_none():
    measured = [one(replicates=np.array([0.1, np.nan, 1000.0])), Measurement("rest", "s", 1.0, 1, 0)]
    assert list(reproduction.replicate_differences(replicates(0.1, np.nan, 1000.0005), measured)) == []
    differences = ["replicates of m of s: differ from what the bootstrap gives"]
    for values in ((0.1, np.nan, 1000.005), (0.10001, np.nan, 1000.0), (0.1, 0.0, 1000.0), (0.1, np.nan)):
        assert list(reproduction.replicate_differences(replicates(*values), measured)) == differences
    assert list(reproduction.replicate_differences(None, measured)) == [
        "replicates: stored of 0 numbers, the artefacts give those of 1"
    ]
    near_zero = [one(replicates=np.array([0.0]))]
    assert list(reproduction.replicate_differences(replicates(9e-7), near_zero)) == []
    assert list(reproduction.replicate_differences(replicates(2e-6), near_zero)) == differences
