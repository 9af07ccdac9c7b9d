"""Environments: what a task happens in, and the sandbox that runs what a model wrote. No torch."""
