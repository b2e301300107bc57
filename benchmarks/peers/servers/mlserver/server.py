"""mlserver start . , with settings.json and model-settings.json"""

from typing import Any

from mlserver import MLModel
from mlserver.codecs import Base64Codec, NumpyCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput
from numpy.typing import NDArray
from pipeline import outputs


def encoded(name: str, rows: NDArray[Any]) -> ResponseOutput:
    if rows.dtype == object:
        return StringCodec.encode_output(name, [text.decode() for text in rows[:, 0]])
    return NumpyCodec.encode_output(name, rows)


class Pipeline(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        [rows] = payload.inputs
        columns = outputs(Base64Codec.decode_input(rows))
        encodings = [encoded(name, column) for name, column in columns.items()]
        return InferenceResponse(model_name=self.name, outputs=encodings)
