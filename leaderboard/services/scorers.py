"""The scorers of this board, with its key, its folder of checkpoints and lexicons, and its hub."""

import hashlib
import logging
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from django.conf import settings

from leaderboard.models import Metric, MetricVersion, RetiredScorer, StoredFolder, Work
from leaderboard.services.build import code
from leaderboard.services.folders import fetch_folder, name_of_scorer, store_folder
from leaderboard.services.leases import Lease
from leaderboard.services.shards import Shards
from leaderboard.services.spending import key_for
from scoring.artefacts import SCORE
from scoring.attributes import Meaning
from scoring.scorers import (
    LEXICON,
    Cost,
    JsonLinesReplies,
    Lexicon,
    LexiconError,
    Scorer,
    ScorerDeclaration,
    ScorerState,
    ScorerUnavailable,
    Scores,
    Surroundings,
    UnknownScorer,
    declaration_of,
    find_declaration,
    find_lexicon,
    read_access,
    read_lexicon,
)
from scoring.scorers.ensemble import member_problem
from scoring.scorers.guard_scorers import read_guard_servers
from scoring.served import CompletionsServer

log = logging.getLogger(__name__)

Folders = tuple[tuple[str, Path], ...]  # of scorers, by name


class NothingToScore(ValueError):
    """There is no text to score."""


def scorers_in_use() -> list[str]:
    """The scorers that metrics ask, by name, with the members of those that are ensembles. One query."""
    names = {metric.asked_scorer for metric in Metric.objects.all()} - {""}
    return sorted(names.union(*(members_of(name) for name in names)))


def members_of(name: str) -> tuple[str, ...]:
    """The scorers that the one called `name` asks; none where it is no ensemble."""
    declaration = find_declaration(name)
    return declaration.members(declaration.choice(name)) if declaration else ()


def folder_of(name: str) -> Path:
    """Where the board looks for a scorer's own files, as in scorers/detoxify-original or scorers/lexicon/farrell."""
    return settings.SCORERS / name.replace(":", "/")


def folder_here(name: str) -> Path:
    """The scorer's own files on this host: those that the board keeps, fetched and checked; else its own folder."""
    return fetch_folder(name_of_scorer(name)) or folder_of(name)


def surroundings_of(name: str, folders: Folders = (), **extras: Any) -> Surroundings:
    """The surroundings that this board gives the scorer `name`. folders: the fetched files, by scorer."""
    return Surroundings(
        folder=dict(folders).get(name) or folder_of(name),
        of_member=partial(surroundings_of, folders=folders, **extras),
        is_stored=StoredFolder.objects.filter(name=name_of_scorer(name)).exists,
        hub_endpoint=settings.HUB_ENDPOINT,
        hub_token=settings.HUB_TOKEN,
        services=read_access(_setting),
        chat_limit_name=settings.CHAT_LIMIT_NAME,
        guard_servers=guard_servers(),
        **extras,
    )


def _setting(name: str) -> Any:
    return getattr(settings, name, None)


def guard_servers() -> dict[str, CompletionsServer]:
    """The servers in GUARD_SERVERS, by the guard that runs there. Raises Refused for a wrong name or address."""
    return read_guard_servers(settings.GUARD_SERVERS, key_for, settings.COMPLETIONS_CONCURRENCY)


def problem_with(name: str, retired_scorers: Mapping[str, RetiredScorer] | None = None) -> ScorerUnavailable | None:
    """Why the scorer is unavailable here, as far as that is known without loading it or a request; else None.

    retired_scorers: by name, where they were read for several; else it is one query.
    """
    if retirement := find_retirement(name, retired_scorers):
        return retirement
    for member in members_of(name):
        if retirement := find_retirement(member, retired_scorers):
            return member_problem(member, retirement)
    declaration = find_declaration(name)
    return declaration.problem(declaration.choice(name), surroundings_of(name)) if declaration else None


def find_end(name: str) -> ScorerUnavailable | None:
    """Why the scorer cannot be had ever again: it was retired, or it ended and nobody noted that yet; else None."""
    problem = problem_with(name)
    return problem if problem and problem.state is ScorerState.RETIRED else None


def find_retirement(name: str, retired_scorers: Mapping[str, RetiredScorer] | None = None) -> ScorerUnavailable | None:
    """The error that says when and why the scorer was retired; None where it is in use.

    retired_scorers: as for `problem_with`.
    """
    row = RetiredScorer.objects.filter(name=name).first() if retired_scorers is None else retired_scorers.get(name)
    if row is None:
        return None
    reason = row.reason.removesuffix(".")
    message = f"{name} was retired on {row.retired_at:%-d %B %Y}: {reason}. Use another scorer"
    return ScorerUnavailable(message, ScorerState.RETIRED)


def cost_of(name: str) -> Cost | None:
    """What a text costs with the scorer, without loading it; None where it runs here."""
    declaration = find_declaration(name)
    return declaration.cost(declaration.choice(name), surroundings_of(name)) if declaration else None


def end_of(name: str) -> date | None:
    """The last day on which the scorer can be had, where its end is announced; else None."""
    declaration = find_declaration(name)
    return declaration.ends(declaration.choice(name), surroundings_of(name)) if declaration else None


def scorer_of(version: MetricVersion, work: Work | None = None) -> Scorer:
    """The scorer of `version`, with what is declared of its labels. Raises what `scorer_for` does."""
    return scorer_for(version.scorer, str(version.number), work, version.metric.declared_labels)


def scorer_for(
    name: str,
    epoch: str,
    work: Work | None = None,
    labels: Mapping[str, Meaning] | None = None,
    *,
    may_fetch: bool = True,
) -> Scorer:
    """The scorer called `name`, kept until another is asked for; `epoch` marks a version of what cannot be looked into.

    Answers of a remote scorer are kept for `work`, so that it can go on where it was interrupted, and for nothing else.
    labels: what is declared of a classifier's. may_fetch: whether what this host lacks may be downloaded. Raises
    ScorerUnavailable, with what to do; UnknownScorer; LexiconError; UndeclaredLabel.
    """
    if retirement := find_end(name):
        raise retirement
    declaration = declaration_of(name)
    folders = tuple((scorer, folder_here(scorer)) for scorer in (name, *members_of(name)))
    if cost_of(name):
        replies = JsonLinesReplies(_replies(work), _identity(name, epoch, work)) if work else None
        extras = {"epoch": epoch, "replies": replies, "may_fetch": may_fetch}
        return declaration.build_in(name, surroundings_of(name, folders, **extras))
    if declaration.quick:
        return declaration.build_in(name, surroundings_of(name, folders))
    return _load(declaration, name, folders, _signature(folders), tuple(sorted((labels or {}).items())), may_fetch)


def _signature(folders: Folders) -> tuple[tuple[str, int, int], ...]:
    """Changes when a file in one of `folders` does: a scorer that was loaded is not kept beyond that."""
    files = sorted(path for _, folder in folders for path in folder.glob("*") if path.is_file())
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)


@lru_cache(maxsize=1)
def _load(
    declaration: ScorerDeclaration,
    name: str,
    folders: Folders,
    _files: tuple[tuple[str, int, int], ...],
    labels: tuple[tuple[str, Meaning], ...],
    may_fetch: bool,
) -> Scorer:
    return declaration.build_in(name, surroundings_of(name, folders, meanings=dict(labels), may_fetch=may_fetch))


def fingerprint_under(name: str, number: int, fingerprint: str) -> str:
    """The fingerprint, under the metric version of this number, of a scorer that had this `fingerprint` in a check.

    Of what cannot be looked into, the number is all that tells the versions apart.
    """
    return scorer_for(name, str(number)).fingerprint() if cost_of(name) else fingerprint


def look_again() -> None:
    """Forget the loaded scorer: the disk or the hub may have another one by now."""
    _load.cache_clear()


def _replies(work: Work) -> Path:
    return Path(settings.VAR / "replies" / f"{work._meta.model_name}-{work.pk}")


def _identity(name: str, epoch: str, work: Work) -> str:
    """Whose answers they are: the number of `work` may have been that of other work before a restore."""
    return f"{name} {epoch} {work._meta.model_name} {work.pk} {work.created_at.isoformat()} {work}"


def hash_of(texts: list[str]) -> str:
    """Of the texts, in their order."""
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()


def forget_replies(work: Work) -> None:
    """Delete the replies kept for `work`, which is done."""
    shutil.rmtree(_replies(work), ignore_errors=True)


def score_texts(scorer: Scorer, texts: list[str | None], work: Work, lease: Lease) -> tuple[pa.Table, Shards]:
    """Score `texts`, distinct ones once, shard by shard under `lease`.

    Returns a row for each text, in order, with columns `reason`, `truncated` and score:*, all null where there is no
    text; and the checkpoints, to be removed once the table is kept. Raises NothingToScore where there is no text at
    all, and what the scorer does.
    """
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    if not distinct:
        raise NothingToScore("there is no text to score: not one continuation was made")
    made_with = {"scorer": scorer.fingerprint(), "texts": hash_of(distinct), "libraries": code()["libraries"]}
    shards = Shards(work, "scores", len(distinct), settings.SHARD_SCORES, made_with=made_with)

    def make(bounds: slice, progress: Callable[[int], None]) -> pa.Table:
        part = distinct[bounds]
        return scores_table([str(n) for n in range(len(part))], scorer.score(part, progress), scorer.attribute_names)

    for number in shards.work_off(lease, make):
        log.info("%s: shard %d of %d", work, number + 1, len(shards.numbers()))
    return spread(shards.whole(), distinct, texts), shards


def score_at_once(scorer: Scorer, texts: Sequence[str | None]) -> pa.Table:
    """As `score_texts`, without checkpoints. Raises NothingToScore."""
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    if not distinct:
        raise NothingToScore("there is no text to score")
    scores = scorer.score(distinct)
    return spread(scores_table([""] * len(distinct), scores, scorer.attribute_names), distinct, texts)


def spread(scores: pa.Table, distinct: list[str], texts: Sequence[str | None]) -> pa.Table:
    """The scores of `distinct` texts as rows of `texts`, all null where there is no text."""
    row = {text: number for number, text in enumerate(distinct)}
    positions = pa.array([None if text is None else row[text] for text in texts], type=pa.int64())
    return scores.drop_columns(["id", "index"]).take(positions)


def scores_table(ids: list[str], scores: Scores, attributes: tuple[str, ...]) -> pa.Table:
    """Rows of the `scores` schema, for texts that are no continuations."""
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.string()),
        "index": pa.nulls(len(ids), pa.int32()),
        "reason": pa.array(scores.reasons, pa.string()),
        "truncated": pa.array(scores.truncated, pa.bool_()),
    }
    for number, name in enumerate(attributes):
        columns[SCORE + name] = pa.array(scores.values[:, number], pa.float32(), from_pandas=True)
    return pa.table(columns)


def import_lexicon(name: str, folder: Path, replace: bool = False) -> tuple[Lexicon, bool]:
    """Keep the lexicon in `folder` for all hosts of the board, whole or not at all.

    Returns it, and whether anything changed.

    Raises LexiconError where it is none, or where another one has that name and is not to be replaced: a changed
    lexicon is another scorer, whose numbers come under a new version of the metric.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,59}", name):
        raise LexiconError(f"name = {name!r}: use small letters, digits and -, beginning with a letter or digit")
    lexicon = read_lexicon(folder)
    own_lexicon = _lexicon_there(name)
    if own_lexicon and own_lexicon.fingerprint == lexicon.fingerprint:
        if not StoredFolder.objects.filter(name=name_of_scorer(LEXICON + name)).exists():
            store_folder(name_of_scorer(LEXICON + name), folder)
        return lexicon, False
    if own_lexicon and not replace:
        raise LexiconError(
            f"there is another lexicon {name!r}: give this one its own name, as {name}-2, or --replace that one"
        )
    store_folder(name_of_scorer(LEXICON + name), folder)
    return lexicon, True


def import_scorer(name: str, folder: Path) -> Scorer:
    """Keep the scorer's files for all hosts, in place of those of before; raises what loading it does.

    Pickled weights are converted to safetensors first.

    A scorer with other files is another one: a check finds that, and all entries are scored again.
    """
    declaration = find_declaration(name)
    if declaration is None or not declaration.import_command:
        raise UnknownScorer(f"name = {name!r}: it is not a scorer with files; write it as in detoxify-original")
    if declaration.import_command != "import_scorer":
        raise UnknownScorer(f"name = {name!r}: import it with `manage.py {declaration.import_command}`")
    with TemporaryDirectory(prefix="plumbline-") as new_folder:
        files = declaration.convert(folder, Path(new_folder))
        declaration.build_in(name, surroundings_of(name, ((name, files),)))
        store_folder(name_of_scorer(name), files)
    look_again()
    return scorer_for(name, "import")


def _lexicon_there(name: str) -> Lexicon | None:
    """The lexicon of that name: the board's own, or one that comes with Plumbline."""
    own = folder_here(LEXICON + name)
    try:
        return read_lexicon(own if own.is_dir() else find_lexicon(name))
    except LexiconError:
        return None
