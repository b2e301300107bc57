# Yours: written once, never touched by `make update`.
"""How the model file of step encode is made: Whisper's encoder, and what each layer of the decoder hears of it."""

from pathlib import Path

import numpy as np

from models.whisper import LAYERS, Whisper

BEGIN = """
encode (float[batch, 80, frames] features)
=> (float[batch, 24, 64, places] keys, float[batch, 24, places, 64] values) {
    first = Conv <kernel_shape = [3], pads = [1, 1]> (features, encoder_conv1_weight, encoder_conv1_bias)
    active = whisper.gelu (first)
    second = Conv <kernel_shape = [3], pads = [1, 1], strides = [2]>
        (active, encoder_conv2_weight, encoder_conv2_bias)
    heard = whisper.gelu (second)
    sound = Transpose <perm = [0, 2, 1]> (heard)
    places = Shape <start = 1, end = 2> (sound)
    positions = Slice (encoder_position_encodings_encodings, zero, places, zero)
    x_0 = Add (sound, positions)
"""
END = """
    keys = Concat <axis = 1> (keys_0, keys_1, keys_2, keys_3)
    values = Concat <axis = 1> (values_0, values_1, values_2, values_3)
}
function layer (x, feed_beta, feed_gamma, feed_bias_0, feed_weight_0, feed_bias_1, feed_weight_1,
                beta, gamma, bias_0, weight_0, bias_1, weight_1) => (y) {
    no_mask = Constant <value_float = 0.0> ()
    normed = LayerNormalization <axis = -1> (x, gamma, beta)
    all = whisper.linear (normed, bias_0, weight_0)
    queries, keys, values = Split <axis = 2> (all)
    rows = whisper.heads (keys)
    columns = Transpose <perm = [0, 1, 3, 2]> (rows)
    value_rows = whisper.heads (values)
    mixed = whisper.attend (queries, columns, value_rows, no_mask)
    attended = whisper.linear (mixed, bias_1, weight_1)
    middle = Add (x, attended)
    y = whisper.feed (middle, feed_beta, feed_gamma, feed_bias_0, feed_weight_0, feed_bias_1, feed_weight_1)
}
function memory (x, bias, weight) => (columns, value_rows) {
    both = whisper.linear (x, bias, weight)
    keys, values = Split <axis = 2> (both)
    rows = whisper.heads (keys)
    columns = Transpose <perm = [0, 1, 3, 2]> (rows)
    value_rows = whisper.heads (values)
}
"""


def build(path: Path) -> None:
    """Write an ONNX file: features FP32[batch, 80, frames] -> keys FP32[batch, 24, 64, frames / 2], values
    FP32[batch, 24, frames / 2, 64], where 24 are the 6 heads of each of the decoder's 4 layers."""
    whisper = Whisper()
    lines = [
        f"x_{i + 1} = whisper.layer (x_{i}, {whisper.names(f'encoder_layer_{i}_')})" for i in LAYERS
    ]
    lines.append(
        "x = LayerNormalization <axis = -1> (x_4, encoder_layer_norm_gamma, encoder_layer_norm_beta)"
    )
    for i in LAYERS:
        heard = whisper.names(f"decoder_layer_{i}_attention_linear_1")
        lines.append(f"keys_{i}, values_{i} = whisper.memory (x, {heard})")
    whisper.save(path, "\n".join([BEGIN, *lines, END]), zero=np.zeros(1, np.int64))
