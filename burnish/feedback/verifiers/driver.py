"""Runs in the sandbox, as text: takes a solution through tests that arrive on its input, and says how each went.

Every line that it says begins with a mark that the solution cannot guess, so a solution that exits early or prints
"passed" has passed nothing. Solution and tests share one process: docs/verifiers.md says what that leaves open.
"""

import json
import os
import sys


def main() -> None:
    """Input: {"mark", "function", "tests"}; tests are texts of assertions, or lists of arguments for the function."""
    order = json.loads(sys.stdin.buffer.read())
    said, nothing = os.dup(1), os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    write, text = os.write, json.dumps

    def tell(*what: object) -> None:
        write(said, (text([order["mark"], *what]) + "\n").encode("ascii"))

    space: dict[str, object] = {"__name__": "solution"}
    with open("solution.py", encoding="utf-8") as file:
        exec(compile(file.read(), "solution.py", "exec"), space)
    for place, test in enumerate(order["tests"]):
        try:
            if order["function"] is None:
                exec(compile(test, f"test {place}", "exec"), space)
                tell(place, True)
            else:
                tell(place, find(space, order["function"])(*test))
        except Exception as error:  # noqa: BLE001 - a test that fails fails, whatever it raises
            tell(place, False, f"{type(error).__name__}: {error}"[:200])


def find(space: dict, name: str):
    """The function, or the method of the class Solution that some data sets ask for."""
    if name in space or "Solution" not in space:
        return space[name]
    return getattr(space["Solution"](), name)


if __name__ == "__main__":
    main()
