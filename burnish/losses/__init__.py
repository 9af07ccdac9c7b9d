"""Losses: terms as pure functions on flat tokens, and as declarations."""
