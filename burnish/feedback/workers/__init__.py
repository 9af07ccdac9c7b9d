"""Worker processes that check answers: lean, limited in time and memory, replaced when one is lost."""
