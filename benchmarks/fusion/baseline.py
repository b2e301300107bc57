"""The image pipeline in FastAPI and ONNX Runtime: a project's own steps and model file, one thread for each worker.

uvicorn serves it from the folder of the project, with `src` on the path and MODEL_FILE in the environment.
"""

import os

import numpy as np
import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]
from fastapi import FastAPI, Request  # type: ignore[import-not-found, unused-ignore]
from fastapi.responses import JSONResponse  # type: ignore[import-not-found, unused-ignore]

from steps.label import Step as Label  # type: ignore[import-not-found, unused-ignore]
from steps.preprocess import Step as Preprocess  # type: ignore[import-not-found, unused-ignore]
from triton_step import Context

app = FastAPI()
preprocess, label = Preprocess(Context()), Label(Context())
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(os.environ["MODEL_FILE"], options, ["CPUExecutionProvider"])


@app.post("/infer")  # type: ignore[untyped-decorator, unused-ignore]
async def infer(request: Request) -> JSONResponse:
    image = np.array([[await request.body()]], np.object_)
    pixels = preprocess(IMAGE=image)["PIXELS"]
    outputs = label(LOGITS=session.run(["logits"], {"pixels": pixels})[0])
    answer = {"LABEL": outputs["LABEL"].item().decode(), "SCORE": outputs["SCORE"].item()}
    return JSONResponse(answer)
