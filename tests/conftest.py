"""What all tests share: property tests draw the same examples each time, so that a commit passes or fails.

`pytest --hypothesis-profile=random` draws others, to search for what the fixed ones miss.
"""

from __future__ import annotations

from hypothesis import settings

# no deadline: a test that fails because the machine was busy tells nothing about the code
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("fixed")
