"""Signals: annotators, pure functions of groups that write arrays on nodes."""
