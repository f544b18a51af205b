"""Submitting a model: three forms, one way from what was sent to the ranking.

sending    who may send how much; a form's values are checked and become a Submission
hub        form A: a model of the hub
outputs    form B: generations or likelihoods of a closed model
tool       form C: logs of lm-evaluation-harness, HELM and Inspect
uploads    files that were sent, until they were read
reading    a worker reads them
lifecycle  what becomes of a submission
"""

from leaderboard.services.submissions.refusals import SubmissionRefused
from leaderboard.services.submissions.sending import submit

__all__ = ["SubmissionRefused", "submit"]
