"""Check the subjects of commits since this rule: at most 72 characters, a capital first, no full stop, no `feat:`."""

import re
import subprocess
import sys

SINCE = "f336ad485051b36ba74d7a62d60ac2c2c2547099"
MOST = 72


def find_faults(subject: str) -> list[str]:
    """Return what is wrong with a subject, and what to write."""
    faults = {
        f"has {len(subject)} characters; write {MOST} at most": len(subject) > MOST,
        "has a prefix; begin with a verb": re.match(r"\w+(\([^)]*\))?!?: ", subject),
        "begins with a small letter; write a capital": subject[:1].islower(),
        "ends with a full stop; drop it": subject.endswith("."),
    }
    return [fault for fault, is_there in faults.items() if is_there]


def main() -> int:
    """Print the faults. Without the history, as in a shallow clone, there is nothing to check."""
    command = ["git", "log", "--no-merges", "--format=%h %s", f"{SINCE}..HEAD"]
    log = subprocess.run(command, capture_output=True, text=True, check=False)
    commits = [line.partition(" ") for line in log.stdout.splitlines()]
    lines = [
        f"{commit}: subject {fault}"
        for commit, _, subject in commits
        for fault in find_faults(subject)
    ]
    print("\n".join(lines), end="\n" * bool(lines))
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
