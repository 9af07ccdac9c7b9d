"""Formats of data rows: what each column means, told by their names or by the recipe. No torch here."""
