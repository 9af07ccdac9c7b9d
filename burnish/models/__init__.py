"""Models: loading, prefix-shared attention, lean heads, adapters."""
