"""uvicorn server:app --port PORT --workers CORES"""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pipeline import answers

app = FastAPI()


@app.post("/infer")
async def infer(request: Request) -> JSONResponse:
    [answer] = answers([await request.body()])
    return JSONResponse(answer)
