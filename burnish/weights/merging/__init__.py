"""Merging: one model made of the weights of several."""
