"""The built-in verifiers: one kind a file, each with the right answer in a column of the data row."""
