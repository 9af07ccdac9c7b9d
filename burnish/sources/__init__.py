"""Sources: async generators of groups."""
