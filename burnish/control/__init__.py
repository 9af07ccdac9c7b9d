"""Control: the phases of a step and how often each repeats."""
