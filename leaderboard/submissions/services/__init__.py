"""What becomes of a submitted model.

hub        form A: a model of the hub
outputs    form B: generations or likelihoods of a closed model
tool       form C: logs of lm-evaluation-harness, HELM and Inspect
uploads    files that were sent, until they were read
reading    a worker reads them
lifecycle  from a submission to the ranking
"""
