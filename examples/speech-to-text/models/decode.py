# Yours: written once, never touched by `make update`.
"""How the model file of step decode is made: Whisper's decoder, and the choice of the next tokens."""

from pathlib import Path

import numpy as np

from models.whisper import LAYERS, Whisper

NO_TIMES, END_OF_TEXT = 50362, 50256  # tokens
TOGETHER = 8  # tokens of a call, which ends early where all of its rows do

BEGIN = """
decode (int64[batch, 1] token, int64[batch, 1] place, float[batch, 48, places, 64] memory,
        float[batch, 24, 64, heard] keys, float[batch, 24, heard, 64] values)
=> (int64[batch, tokens] next_tokens, string[batch, tokens] pieces, float[batch, tokens] scores,
    float[batch, 48, places, 64] next_memory) {
    size = Shape <start = 2, end = 3> (memory)
    length = Squeeze (size)
    numbers = Range (zero, length, one)
    keys_0, keys_1, keys_2, keys_3 = Split <axis = 1> (keys)
    values_0, values_1, values_2, values_3 = Split <axis = 1> (values)
    token_out, place_out, next_memory, all_tokens, all_scores = Loop (most, , token, place, memory) <body = step (
        int64 iteration, bool going, int64[batch, 1] token_in, int64[batch, 1] place_in,
        float[batch, 48, places, 64] memory_in
    ) => (bool goes_on, int64[batch, 1] chosen, int64[batch, 1] place_next,
          float[batch, 48, places, 64] memory_next, int64[batch, 1] said, float[batch, 1] score) {
        word = Gather (decoder_embeddings_weight, token_in)
        added = Gather (decoder_position_encodings_encodings, place_in)
        x_0 = Add (word, added)
        is_later = Greater (numbers, place_in)
        hidden = Where (is_later, never, nothing)
        mask = Unsqueeze (hidden, middle_axes)
        is_here = Equal (numbers, place_in)
        here = Unsqueeze (is_here, outer_axes)
        past_0, past_1, past_2, past_3 = Split <axis = 1> (memory_in)
"""
END = """
        memory_next = Concat <axis = 1> (told_0, told_1, told_2, told_3)
        normed = LayerNormalization <axis = -1> (x_4, decoder_layer_norm_gamma, decoder_layer_norm_beta)
        last = Squeeze (normed, row_axis)
        logits = Gemm <transB = 1> (last, decoder_embeddings_weight)
        is_first = Equal (place_in, one)
        suppressed = Where (is_first, at_first, always)
        allowed = Add (logits, suppressed)
        chances = LogSoftmax <axis = -1> (allowed)
        score, likeliest = TopK <axis = -1> (chances, one_row)
        is_prompt = Equal (place_in, zero)
        chosen = Where (is_prompt, no_times, likeliest)
        said = Identity (chosen)
        place_next = Add (place_in, one)
        is_end = Equal (chosen, end)
        ends = Cast <to = 7> (is_end)
        all_end = ReduceMin <keepdims = 0> (ends)
        goes_on = Equal (all_end, zero)
    }>
    columns = Transpose <perm = [1, 0, 2]> (all_tokens)
    next_tokens = Squeeze (columns, last_axis)
    score_columns = Transpose <perm = [1, 0, 2]> (all_scores)
    scores = Squeeze (score_columns, last_axis)
    pieces = Gather (words, next_tokens)
}
function layer (x, past, here, keys, values, mask, beta_1, gamma_1, bias_10, weight_10, bias_12, weight_12,
                feed_beta, feed_gamma, feed_bias_0, feed_weight_0, feed_bias_1, feed_weight_1,
                beta, gamma, bias_0, weight_0, bias_1, weight_1) => (y, told) {
    no_mask = Constant <value_float = 0.0> ()
    normed = LayerNormalization <axis = -1> (x, gamma, beta)
    all = whisper.linear (normed, bias_0, weight_0)
    queries, own_keys, own_values = Split <axis = 2> (all)
    key_rows = whisper.heads (own_keys)
    value_rows = whisper.heads (own_values)
    new = Concat <axis = 1> (key_rows, value_rows)
    told = Where (here, new, past)
    all_keys, all_values = Split <axis = 1> (told)
    columns = Transpose <perm = [0, 1, 3, 2]> (all_keys)
    said = whisper.attend (queries, columns, all_values, mask)
    after = whisper.linear (said, bias_1, weight_1)
    second = Add (x, after)
    second_normed = LayerNormalization <axis = -1> (second, gamma_1, beta_1)
    asked = whisper.linear (second_normed, bias_10, weight_10)
    heard = whisper.attend (asked, keys, values, no_mask)
    understood = whisper.linear (heard, bias_12, weight_12)
    third = Add (second, understood)
    y = whisper.feed (third, feed_beta, feed_gamma, feed_bias_0, feed_weight_0, feed_bias_1, feed_weight_1)
}
"""


def build(path: Path) -> None:
    """Write an ONNX file: a token, its place and what the layers remember -> the next tokens, up to 8, the characters
    of each, the logarithm of its probability, and what the layers remember then."""
    whisper = Whisper()
    layers = []
    for i in LAYERS:
        own = f"decoder_layer_{i}"
        parts = "attention_layer_norm", "attention_linear_0", "attention_linear_2", "ffn", "self"
        weights = whisper.names(*(f"{own}_{part}" for part in parts))
        layers.append(
            f"x_{i + 1}, told_{i} = whisper.layer (x_{i}, past_{i}, here, keys_{i}, values_{i}, mask, {weights})"
        )
    always = np.zeros(len(whisper.words), np.float32)
    always[whisper.config["suppress_ids"]] = -np.inf
    at_first = always.copy()
    at_first[whisper.config["suppress_ids_begin"]] = -np.inf
    integers = {"zero": 0, "one": 1, "most": TOGETHER, "no_times": NO_TIMES, "end": END_OF_TEXT}
    lists = {
        "one_row": [1],
        "middle_axes": [1, 2],
        "outer_axes": [1, 3],
        "row_axis": [1],
        "last_axis": [2],
    }
    whisper.save(
        path,
        "".join([BEGIN, *layers, END]),
        always=always,
        at_first=at_first,
        words=np.array(whisper.words, np.object_),
        nothing=np.array(0, np.float32),
        never=np.array(-1e9, np.float32),
        **{name: np.array(value, np.int64) for name, value in (integers | lists).items()},
    )
