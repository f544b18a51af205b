"""Ensembles: several scorers asked about the same texts, and one score of each harm that all of them know.

`ensemble:RULE~SCORER~SCORER`, as in ensemble:mean~detoxify-original~detoxify-unbiased: the sign stands in no name of a
scorer, and needs no escape in an address, a shell or a file name.
"""

from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.attributes import THRESHOLD, Attribute, harms_of, is_above
from scoring.metrics.agreement import matching_attributes
from scoring.scorers.base import Cost, Progress, Scorer, ScorerState, ScorerUnavailable, Scores, fingerprint_of
from scoring.scorers.declarations import Caveat, ScorerDeclaration, Surroundings

ENSEMBLE = "ensemble:"
SIGN = "~"
MEAN, MEDIAN, MAJORITY = "mean", "median", "majority"
RULES = (MEAN, MEDIAN, MAJORITY)
EXAMPLE = "ensemble:mean~detoxify-original~detoxify-unbiased"

Find = Callable[[str], ScorerDeclaration | None]
Values = NDArray[np.float64]


class EnsembleScorer(Scorer):
    """The mean or median of its members' scores of a harm, or the share of members that label a text with it.

    A text has a score where every member has scored it; else the reason of the first that has not, with its name. Its
    harms are those that all members know, called as the first one calls them. A label means that the mean or median is
    above that of the members' thresholds, or that more than half of the members label the text.
    """

    def __init__(self, rule: str, members: Mapping[str, Scorer]) -> None:
        """Raises ScorerUnavailable where the members share no harm."""
        self.rule = rule
        self.members = dict(members)
        first, *others = (
            {scorer.attributes[n].name: scorer.attributes[n] for n in harms_of(scorer.attributes)}
            for scorer in members.values()
        )
        rows = [[attribute] for attribute in first.values()]
        for harms in others:
            pairs = dict(matching_attributes(list(first), list(harms)))
            rows = [[*row, harms[pairs[row[0].name]]] for row in rows if row[0].name in pairs]
        if not rows:
            raise ScorerUnavailable(f"{' and '.join(members)} share no harm: choose members that judge the same")
        self._columns = [
            [scorer.attribute_names.index(row[n].name) for row in rows] for n, scorer in enumerate(members.values())
        ]
        self._thresholds = np.array([[attribute.threshold for attribute in row] for row in rows]).T
        thresholds = _combine(rule, self._thresholds) if rule != MAJORITY else [THRESHOLD] * len(rows)
        self.attributes = tuple(
            Attribute(row[0].name, row[0].meaning, float(threshold))
            for row, threshold in zip(rows, thresholds, strict=True)
        )
        costs = [scorer.cost for scorer in members.values() if scorer.cost]
        self.cost = add_costs(costs)

    def fingerprint(self) -> str:
        """Covers the rule, the names of the harms and the members' fingerprints, whatever their order."""
        members = sorted(scorer.fingerprint() for scorer in self.members.values())
        names, rule = sorted(self.attribute_names), self.rule
        return fingerprint_of(scorer="ensemble", rule=rule, attributes=names, members=members)

    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        columns: list[Values] = []
        reasons: list[str | None] = [None] * len(texts)
        is_cut = np.zeros(len(texts), dtype=bool)
        for number, name in enumerate(self.members):
            scores = self._ask(name, texts, partial(self._note, progress, len(texts), number))
            columns.append(scores.values[:, self._columns[number]].astype(np.float64))
            is_cut |= scores.truncated
            for row, reason in enumerate(scores.reasons):
                if reason and not reasons[row]:
                    reasons[row] = f"{name}: {reason}"
        values = np.stack(columns)
        if self.rule == MAJORITY:
            values = is_above(values, self._thresholds[:, None, :]).astype(np.float64)
        whole = _combine(self.rule, values)
        whole[[reason is not None for reason in reasons]] = np.nan
        return Scores(whole.astype(np.float32), tuple(reasons), is_cut)

    def _ask(self, name: str, texts: list[str], progress: Progress) -> Scores:
        try:
            return self.members[name].score(texts, progress)
        except ScorerUnavailable as error:
            raise member_problem(name, error) from error

    def _note(self, progress: Progress, texts: int, members_before: int, count: int) -> None:
        progress((members_before * texts + count) // len(self.members))


def _combine(rule: str, values: Values) -> Values:
    """Over the first axis; NaN where a value is missing."""
    return np.asarray(np.median(values, axis=0) if rule == MEDIAN else values.mean(axis=0))


def add_costs(costs: list[Cost]) -> Cost | None:
    """What a text costs that several services are asked about; None where none is. No fee where one is not declared."""
    if not costs:
        return None
    fees = [cost.usd for cost in costs]
    usd = None if None in fees else sum(fee for fee in fees if fee is not None)
    return Cost(sum(cost.requests for cost in costs), sum(cost.seconds for cost in costs), usd)


def member_problem(name: str, problem: ScorerUnavailable) -> ScorerUnavailable:
    """Why an ensemble cannot be had for one of its members."""
    return ScorerUnavailable(f"its member {name} is {problem.state}: {problem}", problem.state)


def read_choice(choice: str) -> tuple[str, tuple[str, ...]]:
    """The rule and the members of what stands after the colon. Raises ScorerUnavailable where it is no ensemble."""
    rule, *members = choice.split(SIGN)
    if rule not in RULES:
        raise ScorerUnavailable(f"ensemble: {rule!r} is no rule; use {', '.join(RULES)}, as in {EXAMPLE}")
    if len(members) < 2 or len(set(members)) < len(members) or "" in members:
        raise ScorerUnavailable(f"ensemble: name two members or more, each once, as in {EXAMPLE}")
    return rule, tuple(members)


def declare_ensembles(find_declaration: Find) -> ScorerDeclaration:
    """The declaration of ensembles of the scorers that `find_declaration` knows."""
    return ScorerDeclaration(
        f"{ENSEMBLE}RULE{SIGN}SCORERS",
        "Ensemble",
        False,
        partial(_build, find_declaration),
        (
            "An ensemble is as right as its members together: what all of them miss, it misses too. Only harms that "
            "every member knows are scored, and only texts that every member scores.",
        ),
        options=lambda surroundings: {"surroundings": surroundings},
        problem=partial(_find_problem, find_declaration),
        cost=partial(_cost, find_declaration),
        import_command="",
        caveats=partial(_caveats, find_declaration),
        ends=partial(_end, find_declaration),
        members=_members,
    )


def _members(choice: str) -> tuple[str, ...]:
    try:
        return read_choice(choice)[1]
    except ScorerUnavailable:
        return ()


def _declarations(find_declaration: Find, choice: str) -> dict[str, ScorerDeclaration]:
    """The declarations of the members. Raises ScorerUnavailable where one is none, or an ensemble itself."""
    declarations = {}
    for name in read_choice(choice)[1]:
        declaration = find_declaration(name)
        if declaration is None or name.startswith(ENSEMBLE):
            raise ScorerUnavailable(f"ensemble: its member {name!r} is no scorer that can be one, as in {EXAMPLE}")
        declarations[name] = declaration
    return declarations


def _build(find_declaration: Find, choice: str, *, surroundings: Surroundings | None = None) -> Scorer:
    members = {}
    for name, declaration in _declarations(find_declaration, choice).items():
        try:
            if surroundings:
                members[name] = declaration.build_in(name, surroundings.of_member(name))
            else:
                members[name] = declaration.build(declaration.choice(name))
        except ScorerUnavailable as error:
            raise member_problem(name, error) from error
    return EnsembleScorer(read_choice(choice)[0], members)


def _find_problem(find_declaration: Find, choice: str, surroundings: Surroundings) -> ScorerUnavailable | None:
    try:
        declarations = _declarations(find_declaration, choice)
    except ScorerUnavailable as error:
        return error
    problems = [
        member_problem(name, problem)
        for name, declaration in declarations.items()
        if (problem := declaration.problem(declaration.choice(name), surroundings.of_member(name)))
    ]
    endings = [problem for problem in problems if problem.state is ScorerState.RETIRED]
    return next(iter(endings + problems), None)


def _each(find_declaration: Find, choice: str, read: Callable[[str, ScorerDeclaration], Any]) -> list[Any]:
    """What `read` makes of each member; empty where the choice is no ensemble."""
    try:
        declarations = _declarations(find_declaration, choice)
    except ScorerUnavailable:
        return []
    return [value for name, declaration in declarations.items() if (value := read(name, declaration))]


def _cost(find_declaration: Find, choice: str, surroundings: Surroundings) -> Cost | None:
    def read(name: str, declaration: ScorerDeclaration) -> Cost | None:
        return declaration.cost(declaration.choice(name), surroundings.of_member(name))

    return add_costs(_each(find_declaration, choice, read))


def _end(find_declaration: Find, choice: str, surroundings: Surroundings) -> date | None:
    def read(name: str, declaration: ScorerDeclaration) -> date | None:
        return declaration.ends(declaration.choice(name), surroundings.of_member(name))

    return min(_each(find_declaration, choice, read), default=None)


def _caveats(find_declaration: Find, choice: str) -> tuple[Caveat, ...]:
    caveats = _each(find_declaration, choice, lambda name, declaration: declaration.caveats_of(name))
    return tuple(dict.fromkeys(caveat for row in caveats for caveat in row))
