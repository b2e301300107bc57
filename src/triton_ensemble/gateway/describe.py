"""The OpenAPI description of `/predict`: the types of its inputs and outputs, and files in forms."""

from __future__ import annotations

from typing import Any, TypeAlias

import orjson
from pydantic import TypeAdapter

from triton_ensemble.facts.client import Arrays, Package, Tensor
from triton_ensemble.gateway.answers import ERRORS, outputs_as_json
from triton_ensemble.gateway.bodies import raw_input
from triton_ensemble.testing.files import Sample
from triton_ensemble.testing.images import kind

Json: TypeAlias = dict[str, Any]  # an object of OpenAPI
Responses: TypeAlias = dict[int | str, Json]
KEY = "key"  # the name of its scheme
EXAMPLE_BYTES = 16_384  # a larger one hides the description

DESCRIPTION = "Inputs by name, as JSON or as the fields and files of a form"
RAW_DESCRIPTION = "; {} alone also as it is, with a Content-Type such as image/jpeg or audio/wav"
REFUSALS = {
    400: "An input is wrong, or all rows are refused",
    401: "No key, or none that is known",
    408: "The request came too slowly",
    413: "Too many bytes, rows or files",
    415: "Neither JSON nor a form",
    429: "Too many requests at once",
    500: "The models failed",
    503: "The models can't be reached, or are too busy",
    504: "No answer in time",
}
TEXT, INTEGER, NUMBER = ({"type": kind} for kind in ("string", "integer", "number"))


def make_object(fields: Json, *optional: str) -> Json:
    """Return the schema of an object, by its fields."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required}


def make_list(items: Json) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


ID = {"description": "Of the request, as in X-Request-ID and the log"} | TEXT
WHY = {"description": "What is wrong, and where"} | TEXT
ROW = {"description": "The first that is refused"} | INTEGER
REFUSED = make_object({"error": WHY, "id": ID, "row": ROW}, "row")
FILE = {"description": "Its name in the form"} | TEXT
ROW_ERRORS = {
    "description": "Of the rows that are refused, which are null in the outputs; none where all are answered",
    **make_list(make_object({"row": INTEGER, "file": FILE, "error": TEXT}, "file")),
}
OPENAI_ERROR = make_object({"message": TEXT, "type": TEXT, "code": INTEGER})


def content(text: str, schema: Json = REFUSED) -> Json:
    """Return the description of a JSON answer, which by default is the answer to a request without outputs."""
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _refusals(schema: Json) -> Responses:
    return {"4XX": content("The request is refused", schema), "5XX": content("It failed", schema)}


ANY = _refusals(REFUSED)  # of every route, the owner's too
OPENAI = _refusals(make_object({"error": OPENAI_ERROR, "id": ID}))


def predict(
    client: Package,
    inputs: type,
    answer: type,
    samples: list[Sample],
    *,
    decoupled: bool,
    keys: bool,
) -> Json:
    """Return what FastAPI takes to describe a route, with `samples` as examples if no keys are asked for."""
    shown = [] if keys else samples  # the description is for everybody
    body = _schema(inputs)
    form = {"type": "object", "properties": {}, "required": body.get("required", [])}
    for name, tensor in client.tensors.INPUTS.items():
        form["properties"][name] = _parts(tensor, bool(client.tensors.MAX_BATCH_SIZE))
    requests = _list_examples({sample.name: sample.inputs for sample in shown})
    forms = {
        "application/json": {"schema": body, **requests},
        "multipart/form-data": {"schema": form},
    }
    raw = raw_input(client.tensors)
    if raw:
        forms["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    statuses = {status: text for status, text in REFUSALS.items() if keys or status != 401}
    responses = {status: content(text) for status, text in statuses.items()}
    answered = _events(answer) if decoupled else _outputs(client, answer, samples, shown)
    ok = {"description": "The outputs", "content": answered}
    return {
        "summary": f"Ask {client.tensors.MODEL}",
        "description": f"{DESCRIPTION}{raw and RAW_DESCRIPTION.format(raw)}",
        "responses": {200: ok, **responses},
        "openapi_extra": {"requestBody": {"required": True, "content": forms}},
    }


def _outputs(client: Package, answer: type, samples: list[Sample], shown: list[Sample]) -> Json:
    """Return the forms of an answer by media type: JSON, and an image if an output may be one."""
    schema = _schema(answer)
    schema["properties"] = {**schema["properties"], ERRORS: ROW_ERRORS}
    examples = _list_examples({sample.name: sample.outputs for sample in shown})
    texts = [name for name, one in client.tensors.OUTPUTS.items() if one.datatype == "BYTES"]
    binary = {"image/*": {"schema": {"type": "string", "format": "binary"}}}
    has_image = any(_is_image(name, samples) for name in texts)
    return {"application/json": {"schema": schema, **examples}, **(binary if has_image else {})}


def _is_image(name: str, samples: list[Sample]) -> bool:
    """Return whether an output of bytes is an image in the samples or, if they lack it, by its name."""
    known = [sample.outputs[name] for sample in samples if name in sample.outputs]
    cells = [bytes(cell) for array in known for cell in array.flat]
    return any(map(kind, cells)) if cells else "image" in name.lower()


def _events(answer: type) -> Json:
    """Return the form of a stream of server-sent events, as OpenAPI 3.2 has it: the data of each are JSON."""
    outputs = {"contentMediaType": "application/json", "contentSchema": _schema(answer)}
    text = "The outputs; of an event `error`, why the stream ends"
    data = {"type": "string", "description": text, **outputs}
    item = make_object({"data": data, "event": TEXT}, "event")
    return {"text/event-stream": {"itemSchema": item}}


def _list_examples(by_name: dict[str, Arrays]) -> Json:
    """Return the values of samples as JSON has them, of an answer what is recorded of it."""
    texts = {name: outputs_as_json(arrays) for name, arrays in by_name.items() if arrays}
    short = {name: text for name, text in texts.items() if len(text) <= EXAMPLE_BYTES}
    examples = {name: {"value": orjson.loads(text)} for name, text in short.items()}
    return {"examples": examples} if examples else {}


def _schema(kind: type) -> Json:
    """Return the JSON schema of a type, whole."""
    return TypeAdapter(kind).json_schema(ref_template="#/{model}")


def _parts(tensor: Tensor, batch: bool) -> Json:
    is_text = tensor.datatype == "BYTES" and tensor.dims == (1,)
    row = {**TEXT, "format": "binary"} if is_text else {**TEXT, "description": "JSON"}
    return make_list(row) | {"minItems": 1} if batch else row


def drop_keys(description: Json) -> Json:
    """Return the description of an application without the API key, which routes may take but nobody asks for."""
    description.get("components", {}).get("securitySchemes", {}).pop(KEY, None)
    operations = (one for path in description["paths"].values() for one in path.values())
    for operation in operations:
        if needs := [need for need in operation.pop("security", []) if KEY not in need]:
            operation["security"] = needs
    return description
