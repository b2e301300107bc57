# Yours: written once, never touched by `make update`.
"""The Python steps alone, without a server."""

import numpy as np
import pytest
from numpy.typing import NDArray

from steps.pool import Step as Pool
from steps.tokenize import LENGTHS
from steps.tokenize import Step as Tokenize
from triton_step import Context, InvalidRequest

START, END = 101, 102


def tokenize(*texts: str | bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    data = [text if isinstance(text, bytes) else text.encode() for text in texts]
    outputs = Tokenize(Context())(TEXT=np.array(data, np.object_).reshape(-1, 1))
    return outputs["TOKEN_IDS"], outputs["MASK"]


def pool(hidden: NDArray[np.float32], mask: list[list[int]]) -> NDArray[np.float32]:
    outputs = Pool(Context())(HIDDEN=hidden, MASK=np.array(mask, np.int64))
    return outputs["EMBEDDING"]


def test_a_text_is_padded_to_the_next_length() -> None:
    ids, mask = tokenize("Hello World")
    assert ids.tolist() == [[START, 7592, 2088, END] + [0] * 4]
    assert mask.tolist() == [[1] * 4 + [0] * 4]


@pytest.mark.parametrize(("words", "length"), [(6, 8), (7, 16), (62, 64), (63, 96), (254, 256)])
def test_few_lengths_are_in_use(words: int, length: int) -> None:
    ids, mask = tokenize("a " * words, "short")
    assert ids.shape == mask.shape == (2, length)
    assert mask.sum(axis=1).tolist() == [words + 2, 3]


def test_a_long_text_is_cut_off_and_counted() -> None:
    context = Context()
    ids = Tokenize(context)(TEXT=np.array([[b"a " * 255], [b"a"]], np.object_))["TOKEN_IDS"]
    assert ids.shape == (2, LENGTHS[-1])
    assert (ids[0, 0], ids[0, -1]) == (START, END)
    [counter] = context.metrics.counters.values()
    assert counter.value == 1


def test_an_empty_text_has_a_start_and_an_end() -> None:
    ids, mask = tokenize("")
    assert ids[0, :3].tolist() == [START, END, 0]
    assert mask.sum() == 2


def test_case_and_accents_do_not_count() -> None:
    ids, _ = tokenize("Zürich", "zurich")
    np.testing.assert_array_equal(ids[0], ids[1])


def test_what_is_no_utf_8_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="row 1 is not UTF-8 text"):
        tokenize("good", b"\xff")


def test_the_mean_is_of_tokens_alone() -> None:
    hidden = np.random.default_rng(0).normal(size=(2, 16, 384)).astype(np.float32)
    mean = np.stack([hidden[0, :5].mean(axis=0), hidden[1, :16].mean(axis=0)])
    wanted = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    embedding = pool(hidden, [[1] * 5 + [0] * 11, [1] * 16])
    assert embedding.dtype == np.float32
    np.testing.assert_allclose(embedding, wanted, atol=1e-6)


def test_no_token_at_all_is_no_direction() -> None:
    assert not pool(np.ones((1, 2, 384), np.float32), [[0, 0]]).any()
