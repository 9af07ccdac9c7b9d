"""Methods: one declaration a file."""
