# Yours: written once, never touched by `make update`.
"""SCORE puts the right document first more often than EMBEDDING does.

A query is the first paragraph of a NumPy function's docstring, and its one right document is what
follows. NumPy is in this environment, so nothing is downloaded.
"""

import inspect
import re

import numpy as np

from models.direct import embed, read_vectors, score

PARTS = ("", ".linalg", ".fft", ".random")
EVERY = 4  # each 4th function; 1 repeats the figures of README.md
WORDS = 60  # of a document
CANDIDATES = 20


def read_docstrings() -> dict[str, str]:
    """Return documents by query."""
    documents: dict[str, str] = {}
    for part in PARTS:
        module = __import__(f"numpy{part}", fromlist=["*"])
        for name in sorted({*module.__all__}):
            doc = inspect.getdoc(getattr(module, name)) or ""
            paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", doc)]
            query, *rest = [p for p in paragraphs if not re.match(r"\w+\(.*\)|\.\. ", p)] or [""]
            document = " ".join(rest).split()
            if 4 <= len(query.split()) <= 30 and len(document) >= 15:
                documents.setdefault(query, " ".join(document[:WORDS]))
    return dict(list(documents.items())[::EVERY])


def test_reranking_puts_more_right_documents_first() -> None:
    documents = read_docstrings()
    queries = [read_vectors(query) for query in documents]
    texts = [read_vectors(document) for document in documents.values()]
    embedded = np.stack([embed(text) for text in texts])
    found = reranked = 0
    for right, query in enumerate(queries):
        candidates = np.argsort(-embedded @ embed(query))[:CANDIDATES]
        scores = [score(query, texts[candidate]) for candidate in candidates]
        found += candidates[0] == right
        reranked += candidates[np.argmax(scores)] == right
    count = len(documents)
    print(f"first of {count}: {found / count:.1%} embedded, {reranked / count:.1%} reranked")
    assert reranked > found > 0.4 * count
