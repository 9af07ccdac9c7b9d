"""Studies: methods compared on models and tasks over paired seeds, under one budget (docs/studies.md)."""
