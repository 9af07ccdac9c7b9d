"""Checks of answers: plain functions that run in worker processes. Nothing heavy is imported here."""
