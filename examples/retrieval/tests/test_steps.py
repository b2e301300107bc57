# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server. tokenize and pool come from text-embedding."""

import numpy as np
from numpy.typing import NDArray

from models.direct import score
from steps.compare import Step as Compare
from steps.query import Step as Query
from triton_step import Context

RANDOM = np.random.default_rng(0)


def draw(*shape: int) -> NDArray[np.float32]:
    return RANDOM.normal(size=shape).astype(np.float32)


def test_a_request_without_a_query_has_an_empty_one_for_each_text() -> None:
    texts = np.array([[b"a"], [b"b"]], np.object_)
    assert Query(Context())(texts, None)["QUERIES"].tolist() == [[b""], [b""]]
    assert Query(Context())(texts, texts[::-1])["QUERIES"].tolist() == [[b"b"], [b"a"]]


def test_each_token_of_the_query_takes_the_nearest_of_the_text() -> None:
    text, query = draw(2, 16, 384), draw(2, 8, 384)
    lengths, words = [16, 5], [3, 8]
    masks = [np.arange(n) < np.array(of)[:, None] for n, of in ((16, lengths), (8, words))]
    mask, query_mask = (each.astype(np.int64) for each in masks)
    scores = Compare(Context())(text, mask, query, query_mask)["SCORE"]
    assert scores.dtype == np.float32
    for row in range(2):
        wanted = score(query[row, : words[row]], text[row, : lengths[row]])
        np.testing.assert_allclose(scores[row], wanted, atol=1e-6)


def test_a_text_is_its_own_best_answer() -> None:
    text = draw(1, 4, 384)
    mask = np.ones((1, 4), np.int64)
    [[best]] = Compare(Context())(text, mask, text, mask)["SCORE"]
    [[other]] = Compare(Context())(draw(1, 4, 384), mask, text, mask)["SCORE"]
    np.testing.assert_allclose(best, 1, atol=1e-6)
    assert other < best


def test_no_token_at_all_is_no_answer() -> None:
    vectors, nothing = draw(1, 2, 384), np.zeros((1, 2), np.int64)
    assert Compare(Context())(vectors, nothing, vectors, nothing)["SCORE"] == 0
