"""How right are the scorers, for whom?"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import Chart
from leaderboard.models import EvaluationSet
from leaderboard.queries.report_cards import Card, ListedScorer, list_checks, list_disagreements, list_scorers
from leaderboard.queries.scorer_agreement import (
    compare_with_others,
    compare_with_published,
    describe_pair,
    load_of_set,
)
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick
from leaderboard.views.scorer_charts import ScorePanel, group_chart, reliability_chart, score_charts
from scoring.artefacts import ArtefactError
from scoring.evaluation_sets import IDENTITY_MENTIONS
from scoring.metrics.formulas import slice_label

NO_IDENTITY = "no identity"  # the group of mentions that names none


@require_safe
@keep_page()
def scorers(request: HttpRequest) -> HttpResponse:
    """Every scorer, what is known of it today, and its report cards side by side."""
    listed_scorers = list_scorers()
    rows = [(texts, scorer, attribute, card) for scorer in listed_scorers for texts, attribute, card in scorer.cards]
    two_sided = {texts for texts, _, _, card in rows if card["whole"]["roc_auc"]}  # of both labels: they say most
    rows.sort(key=lambda row: (row[0] not in two_sided, row[0].title))
    tables = [(texts, list(group)) for texts, group in groupby(rows, key=lambda row: row[0])]
    return render(request, "scorers.html", {"scorers": listed_scorers, "tables": tables})


@require_safe
@keep_page(reads=("card", "with", *CHART_FILE))
def scorer_page(request: HttpRequest, name: str) -> HttpResponse:
    """A scorer's report card on one labelled set, for one of its attributes, chosen by `card`.

    And its agreement with the other scorers on that set, with the one chosen by `with` in detail.
    """
    listed_scorers = list_scorers()
    scorer = next((one for one in listed_scorers if one.name == name), None)
    if scorer is None:
        raise Http404(f"No metric of this board asks a scorer called {name[:100]!r}")
    context: dict[str, Any] = {
        "scorer": scorer,
        "published": compare_with_published(scorer),
        "checks": list_checks(scorer),
        "disagreements": list_disagreements(scorer),
    }
    charts: list[Chart] = []
    if scorer.cards:
        choices = {f"{texts.slug}/{attribute}": (texts, attribute, card) for texts, attribute, card in scorer.cards}
        choice = pick(request, "card", next(iter(choices)), list(choices))
        texts, attribute, card = choices[choice]
        context |= {"texts": texts, "attribute": attribute, "card": card, "choice": choice, "choices": choices}
        context["sampled"] = texts.artefact and card["whole"]["n"] + card["unscored"] < texts.artefact.rows
        context |= describe_card(scorer, attribute, card) | describe_agreement(
            request, listed_scorers, scorer, (texts, attribute)
        )
        context |= {"reliability": reliability_chart(scorer, card), "areas": group_chart(scorer, card)}
        charts = [chart for chart in (context["reliability"], context["areas"], *context["scatter"]) if chart]
    return chart_file(request, charts) or render(request, "scorer.html", context)


def describe_card(scorer: ListedScorer, attribute: str, card: Card) -> dict[str, Any]:
    """The part of the context on one report card, and on mentions of identities and paraphrases."""
    paraphrases = scorer.paraphrases(attribute)
    return {
        "rows": sorted(card["groups"].items(), key=lambda row: slice_label(row[0])),
        "languages": sorted(card["languages"].items(), key=lambda row: -row[1]["n"]),
        "functionalities": functionality_rows(card),
        "tested_groups": list(card["passes_by_group"]),
        "mentions": mention_rows(scorer.mentions(attribute)),
        "mentions_choice": f"{IDENTITY_MENTIONS}/{attribute}",
        "paraphrases": paraphrases and paraphrases.get("paraphrases"),
    }


def functionality_rows(card: Card) -> list[dict[str, Any]]:
    """The pass rates by functionality, the lowest first; of each demographic, with a shade from -4 to 4 around 50%."""
    rows = []
    for name, rate in sorted(card["passes"].items(), key=lambda item: item[1]["value"]):
        by_group = [rates.get(name) for rates in card["passes_by_group"].values()]
        cells = [{"rate": one, "level": shade(one["value"])} if one else None for one in by_group]
        rows.append({"name": name, "rate": rate, "level": shade(rate["value"]), "cells": cells})
    return rows


def shade(rate: float) -> int:
    """The shade of a pass rate: -4 of none, 0 of one half, 4 of all."""
    return round(8 * rate) - 4


def mention_rows(card: Card | None) -> list[tuple[str, Any]]:
    """The share of benign mentions that are labelled, by group: what names no identity first, then the highest."""
    if card is None:
        return []
    shares = [(name, group["about_it"]["false_positives"]) for name, group in card["groups"].items()]
    return sorted(shares, key=lambda row: (row[0] != NO_IDENTITY, -row[1]["value"], row[0]))


def describe_agreement(
    request: HttpRequest, listed_scorers: Sequence[ListedScorer], scorer: ListedScorer, card: tuple[EvaluationSet, str]
) -> dict[str, Any]:
    """The part of the context on agreement with other scorers on the texts of a report card, of one attribute."""
    texts, attribute = card
    scores = load_of_set(listed_scorers, texts)
    others = compare_with_others(scorer.name, attribute, scores)
    names = [one.scorer.name for one in others]
    chosen_name = pick(request, "with", names[0] if names else "", [*names, ""])
    by_name = {one.scorer.name: one for one in scores}
    context: dict[str, Any] = {"others": others, "details": [], "scatter": []}
    if chosen_name:
        other = by_name[chosen_name]
        try:
            details = describe_pair(by_name[scorer.name], other, attribute)
        except (ArtefactError, FileNotFoundError):  # the texts are lost, or were left on another board
            return context
        panels = [ScorePanel(one.agreement.attribute, one.agreement.pearson.value, one.points) for one in details]
        context |= {"other": other.scorer, "details": details}
        context["scatter"] = score_charts(scorer.name, chosen_name, panels)
    return context
