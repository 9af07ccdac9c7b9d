"""Pipelines: graphs of nodes whose artefacts are named by their content, so that what is done is not done again."""
