"""Generated worlds: small places to act in, each with an oracle, shortcuts that must fail, and levels."""
