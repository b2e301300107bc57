"""Short messages from a Triton's log."""

from __future__ import annotations

import json
import re

# A line of the log, of a table, or of one of NVIDIA's libraries.
TRITONS = re.compile(r"[IWEF]\d{4} \d|[+|]|Error: Failed to initialize NVML|WARNING: \[Torch|\s*$")
# Each text has the name of another region.
NO_ROOM = re.compile(
    r"(?:Internal: )?(\w+ to \w+ (?:the )?shared memory) .*No space left on device.*"
)
FULL = (
    ": /dev/shm is full; make room there, or enlarge it (a container's by SHM_SIZE): "
    "each instance of a Python model needs 1 MB"
)


def reasons(log: str) -> list[str]:
    """Return why Triton gave up, in its own words: root causes only, each once."""
    texts, parse_error = [], ""
    for line in log.splitlines():
        if match := re.search(r"Error parsing text-format \S+: (.*)", line):
            parse_error = match[1]
        elif match := re.search(r"preinitialize Python stub: (.*)|^.*unrecognized option.*", line):
            texts.append(match[1] or match[0])
        elif match := re.match(r'E.* (?:model_\w+|main)\.cc:\d+\] (".*")$', line):
            text = one_line(json.loads(match[1]))
            texts.append(f"{text}: {parse_error}" if "failed to read text proto" in text else text)
    dependent = re.compile(r"depends on '.*' which (has no loaded version|is not valid)")
    return [text for text in dict.fromkeys(texts) if not dependent.search(text)]


def last_traceback(log: str) -> str:
    """Return the traceback of the last step that failed, or an empty string if no step failed."""
    errors = re.findall(r'^E.*\] (".*\\nTraceback .*")$', log, re.MULTILINE)
    return str(json.loads(errors[-1])) if errors else ""


def read_step_line(line: str) -> str | None:
    """Return what a step has logged or printed in a line of the log, or None if the line is Triton's own."""
    if match := re.match(r'[IWE]\d{4} \S+ \d+ context\.py:\d+\] (".*")$', line):
        return str(json.loads(match[1]))
    if match := re.match(r'E\d{4} \S+ \d+ p(?:b_stub|ython_be)\.cc:\d+\] (".*")$', line):
        return one_line(json.loads(match[1]))
    return None if TRITONS.match(line) else line


def one_line(text: str) -> str:
    """Return a message of Triton on one line.

    Of a Python stack only the innermost place in a version folder is kept.
    """
    message, _, stack = text.removeprefix("Invalid argument: ").partition("\n\nAt:\n")
    place = re.search(r"^\s*((?!.*/triton_adapter/).*/\d+/.*)\((\d+)\): ", stack, re.MULTILINE)
    return NO_ROOM.sub(rf"\1{FULL}", " ".join(message.split())) + (
        f" ({place[1]}, line {place[2]})" if place else ""
    )


def describe_loading(log: str) -> str:
    """Return half a sentence with the models that neither loaded nor failed to, if there are any."""
    ended = re.findall(r"(?:successfully loaded|failed to load) '(.*?)'", log)
    names = [name for name in re.findall(r'"loading: (.*):\d+"', log) if name not in ended]
    return f"; still loading: {', '.join(names)}" if names else ""


def read_backend_notes(log: str) -> list[str]:
    """Return the notes of the local backends from their start: that they make up answers, or run without the GPU."""
    said = r'\] "(.*: (?:a stand-in for \S+ (?:answers with zeros and empty texts|makes up words .*)|this \S+ has no CUDA, .*))"$'
    return list(dict.fromkeys(re.findall(said, log, re.MULTILINE)))
