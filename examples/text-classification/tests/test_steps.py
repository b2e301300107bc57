# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server."""

import numpy as np
import pytest
from numpy.typing import NDArray

from steps.tokenize import Step as Tokenize
from steps.words import LENGTH, VOCABULARY
from triton_step import Context, InvalidRequest


def tokenize(*texts: str | bytes) -> NDArray[np.int64]:
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    rows = np.array(encoded, dtype=np.object_).reshape(-1, 1)
    ids: NDArray[np.int64] = Tokenize(Context())(TEXT=rows)["TOKEN_IDS"]
    assert ids.shape == (len(texts), LENGTH)
    assert ids.dtype == np.int64
    return ids


def test_words_have_the_same_numbers_wherever_they_stand() -> None:
    first, second = tokenize("Solve a System!", "system: solve it")
    assert set(first[first > 0]) & set(second[second > 0]) == {first[0], first[2]}


def test_words_that_begin_alike_share_a_number() -> None:
    ids = tokenize("integral", "integrate")
    np.testing.assert_array_equal(ids[0], ids[1])


def test_a_word_counts_once() -> None:
    ids = tokenize("sine sine SINE", "sine")
    np.testing.assert_array_equal(ids[0], ids[1])


def test_the_first_words_of_a_long_text_count() -> None:
    words = [chr(97 + n % 26) * (1 + n // 26) for n in range(2 * LENGTH)]
    ids = tokenize(" ".join(words), " ".join(words[:LENGTH]))
    np.testing.assert_array_equal(ids[0], ids[1])
    assert (ids > 0).all()
    assert (ids < VOCABULARY).all()


@pytest.mark.parametrize("data", ["", "  ", "42!", "\u4f60\u597d"])
def test_a_text_without_a_word_is_refused(data: str) -> None:
    message = "TEXT, row 1: has no word; send a sentence in English"
    with pytest.raises(InvalidRequest, match=message):
        tokenize("sine", data)


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="row 0 is not UTF-8 text"):
        tokenize(b"\xff\xd8")


def test_a_batch_equals_its_rows_one_by_one() -> None:
    texts = ["Roots of a polynomial", "Fit a spline", "Hilbert transform"]
    one_by_one = np.concatenate([tokenize(text) for text in texts])
    np.testing.assert_array_equal(tokenize(*texts), one_by_one)


def test_no_rows() -> None:
    assert tokenize().shape == (0, LENGTH)
