"""Cases of the alert rules, as unit tests of promtool: what the metrics of Triton do, and which alerts fire when.

That a metric does so was seen on a local Triton. `test_alerts.py` asks one again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml
from support import Generate, Project, step

SECONDS = 5  # from one sample to the next, as in prometheus.yml
LONG = 36  # minutes


def counter(*phases: tuple[float, float]) -> str:
    """Return a counter that grows, for some minutes each, by so much from sample to sample."""
    texts, value = [], 0.0
    for minutes, by in phases:
        count = round(minutes * 60 / SECONDS)
        texts.append(f"{value:g}+{by:g}x{count - 1}")
        value += by * count
    return " ".join(texts)


def gauge(*phases: tuple[float, float]) -> str:
    """Return a gauge that has, for some minutes each, a value."""
    return " ".join(f"{value:g}x{round(minutes * 60 / SECONDS) - 1}" for minutes, value in phases)


def steady(by: float) -> str:
    return counter((LONG, by))


def crashing(lives: int, by: float, *, times: int = 20) -> str:
    """Return a counter of a server that crashes again and again, after so many samples, then lives."""
    cycle = f"0+{by:g}x{lives - 1} stale _x1"
    return " ".join([*[cycle] * times, f"0+{by:g}x{LONG * 60 // SECONDS}"])


def failure(model: str, reason: str) -> str:
    return f'nv_inference_request_failure{{model="{model}",reason="{reason}"}}'


def success(model: str) -> str:
    return f'nv_inference_request_success{{model="{model}"}}'


def lived(process: int) -> str:
    return f'step_process_seconds_total{{model="a", step="a", process="a_0_{process}"}}'


class Case(NamedTuple):
    """The difference to a server that answers 20 requests a second, and by minute which alerts then fire."""

    name: str
    fires: dict[float, str]
    metrics: dict[str, str]
    counts: str = ""  # requests a second at the last minute, as the rules record them


UP = "up{}"
REFUSED, FAILED = 'step_rejected_total{step="a"}', 'step_failed_total{step="a"}'
WAITING = 'nv_inference_pending_request_count{model="a"}'
QUEUE = {"default_queue_policy": {"max_queue_size": 10}}
HEALTH_CHECKS = 1  # between two samples; they are answered, and no traffic


def healthy(pipeline: str, *models: str) -> dict[str, str]:
    """Return the metrics of a server without trouble."""
    everything = {pipeline, *models}
    reasons = ("OTHER", "BACKEND", "REJECTED", "CANCELED")
    return {
        UP: gauge((LONG, 1)),
        **{success(model): steady(100 + HEALTH_CHECKS) for model in sorted(everything)},
        **{failure(model, reason): steady(0) for model in sorted(everything) for reason in reasons},
        **{lived(process): steady(SECONDS) for process in range(4)},
        f'nv_inference_request_summary_us{{model="{pipeline}", quantile="0.99"}}': gauge(
            (LONG, 9e4)
        ),
        REFUSED: steady(0),
        FAILED: steady(0),
    }


def only(pipeline: str, answered: float = 0, failed: float = 0) -> dict[str, str]:
    """Return what an ensemble counts, besides health checks. Failed requests count twice, as in Triton."""
    return {
        success(pipeline): steady(answered + HEALTH_CHECKS),
        failure(pipeline, "OTHER"): steady(2 * failed),
    }


E = "ensemble"
CASES = [
    Case("all is well", {5: "", 35: ""}, {}, "answered=20 failed=0"),
    Case("nobody asks", {5: ""}, only(E), "answered=0"),
    Case("no metrics", {2.4: "", 2.7: "TritonDown", 5: ""}, {UP: gauge((2, 1), (1, 0), (LONG, 1))}),
    Case(
        "a crash loop, each time up for a while",
        {1: "", 4: "TritonRestarts", 8: "TritonRestarts", 28: ""},
        {UP: " ".join(["1x4 0x2"] * 12 + [f"1x{LONG * 12}"]), success(E): crashing(6, 4, times=12)},
    ),
    Case(
        "a crash loop, too quick for `up` to tell",
        {4: "TritonRestarts", 28: ""},
        {success(E): " ".join(["0+4x5"] * 14 + [f"0+4x{LONG * 12}"])},
    ),
    Case(
        "one start anew",
        {1.5: "", 2: "", 3: "", 10: ""},
        {
            UP: "1x11 0x2 1x700",
            **{success(model): crashing(12, 101, times=1) for model in (E, "a", "b")},
            **{lived(process): crashing(12, 5, times=1) for process in range(4)},
        },
    ),
    Case(
        "197 of 200 requests find a full queue",
        {0.8: "", 4: "TritonErrors TritonOverloaded", 9: "TritonErrors TritonOverloaded", 14: ""},
        {
            success(E): counter((10, 3 + HEALTH_CHECKS), (LONG, 100 + HEALTH_CHECKS)),
            failure(E, "OTHER"): counter((10, 2 * 197), (LONG, 0)),
            WAITING: gauge((10, 10), (LONG, 0)),
        },
    ),
    Case(
        "a failed request counts once",
        {9: "TritonErrors"},
        only(E, 75, 25) | {FAILED: steady(25)},
        "answered=15 failed=5 refused=0",
    ),
    Case(
        "requests wait too long",
        {9: "TritonErrors"},
        only(E, 50, 50) | {failure("a", "REJECTED"): steady(50)},
    ),
    Case(
        "clients cancel all requests, before a step has one",
        {5: "", 20: ""},
        only(E, 0, 100)
        | {failure("a", "CANCELED"): steady(100), success("a"): steady(0), success("b"): steady(0)},
        "failed=0",
    ),
    Case(
        "a step refuses all requests as invalid",
        {5: "", 20: ""},
        only(E, 0, 100) | {REFUSED: steady(100)},
        "failed=0 refused=20",
    ),
    Case(
        "a step fails on 4 of 100 requests, then on 20, then on none",
        {10: "", 14: "TritonErrors", 24: ""},
        {
            failure(E, "OTHER"): counter((10, 8), (10, 40), (LONG, 0)),
            FAILED: counter((10, 4), (10, 20), (LONG, 0)),
        },
    ),
    Case(
        "next to no traffic, and all of it fails: health checks do not hide it",
        {10: "TritonErrors", 20: "TritonErrors"},
        {
            success(E): steady(HEALTH_CHECKS),
            failure(E, "OTHER"): " ".join(f"{2 * i}x19" for i in range(30)),
        },
    ),
    Case(
        "one request fails, the only one",
        {3: "", 4: "", 5: "", 6: ""},
        {success(E): steady(HEALTH_CHECKS), failure(E, "OTHER"): gauge((2, 0), (LONG, 2))},
    ),
    Case(
        "a model fails on everything, then works again",
        {1: "", 5: "TritonErrors TritonModelFails", 16: ""},
        {
            success(E): counter((1, 101), (10, 0), (LONG, 101)),
            success("a"): counter((1, 101), (10, 0), (LONG, 101)),
            failure(E, "OTHER"): counter((1, 0), (10, 202), (LONG, 0)),
            failure("a", "BACKEND"): counter((1, 0), (10, 101), (LONG, 0)),
        },
    ),
    Case(
        "one process of four has died, until the server starts anew",
        {2: "", 4: "TritonStepDied", 16: "TritonStepDied", 30: "TritonStepDied", 34: ""},
        {
            **{lived(process): counter((32, SECONDS)) + f" 0+5x{LONG}" for process in range(3)},
            lived(3): counter((2, SECONDS), (30, 0)) + f" 0+5x{LONG}",
        },
    ),
    Case("a queue is long for one sample", {2: "", 2.1: "", 4: ""}, {WAITING: "0x23 80 0x400"}),
    Case("the only sample is of a long queue", {2: "", 4: ""}, {WAITING: "_x23 80 stale"}),
    Case(
        "a queue is long for five minutes",
        {3: "", 5: "TritonQueueGrows", 8: ""},
        {'nv_inference_pending_request_count{model="b"}': gauge((2, 0), (5, 80), (LONG, 3))},
    ),
    Case(
        "slow for two minutes, and later for ten",
        {4: "", 10.2: "", 19: "TritonSlow", 26: ""},
        {
            f'nv_inference_request_summary_us{{model="{E}", quantile="0.99"}}': gauge(
                (2, 9e4), (2, 2e6), (6, 9e4), (10, 2e6), (LONG, 9e4)
            )
        },
    ),
]

# To Triton an answer of one model that is an error is an answer like any other; and it counts nothing that a full
# queue refuses.
ALONE = 'nv_inference_pending_request_count{model="alone"}'
CASES_OF_ONE_MODEL = [
    Case("all is well", {5: "", 35: ""}, {}, "answered=20 failed=0"),
    Case(
        "a full queue",
        {0.8: "", 4: "TritonOverloaded", 14: ""},
        {ALONE: gauge((10, 10), (LONG, 0))},
    ),
    Case("clients cancel", {9: ""}, {failure("alone", "CANCELED"): steady(50)}),
    Case("requests are invalid", {9: ""}, {REFUSED: steady(50)}, "answered=10 failed=0 refused=10"),
    Case(
        "a step fails", {9: "TritonErrors"}, {FAILED: steady(50)}, "answered=10 failed=10 refused=0"
    ),
    Case(
        "its process has died",
        {9: "TritonErrors TritonModelFails TritonStepDied"},
        {
            success("alone"): steady(0),
            failure("alone", "BACKEND"): steady(101),
            lived(0): counter((1, 5), (LONG, 0)),
        },
    ),
]


def of_gateway(status: int) -> str:
    return f'gateway_requests_total{{job="gateway",route="/predict",status="{status}"}}'


def faster_than(seconds: str) -> str:
    return f'gateway_request_seconds_bucket{{job="gateway",route="/predict",le="{seconds}"}}'


# 20 requests a second; each takes under half a second. Of the probes half are refused, which says nothing of requests.
PROBES = 'gateway_requests_total{job="gateway",route="/readyz",status="503"}'
GATEWAY_UP = 'up{job="gateway"}'
OF_GATEWAY = {
    GATEWAY_UP: gauge((LONG, 1)),
    of_gateway(200): steady(100),
    PROBES: steady(100),
    **{faster_than(seconds): steady(100) for seconds in ("0.5", "1", "2.5", "+Inf")},
}
CASES_OF_GATEWAY = [
    Case("all is well", {5: "", 35: ""}, {}),
    Case(
        "it does not answer",
        {2.4: "", 2.7: "GatewayDown", 5: ""},
        {GATEWAY_UP: gauge((2, 1), (1, 0), (LONG, 1))},
    ),
    Case(
        "4 of 100 requests fail, then 20, then none",
        {10: "", 15: "GatewayErrors", 24: ""},
        {of_gateway(500): counter((10, 4), (5, 10), (LONG, 0)), of_gateway(504): steady(0)},
    ),
    Case(
        "it has neither Triton nor time",
        {9: "GatewayErrors"},
        {of_gateway(200): steady(0), of_gateway(503): steady(5), of_gateway(504): steady(5)},
    ),
    Case(
        "all places are taken for five minutes",
        {3: "", 8: "GatewayOverloaded", 14: ""},
        {of_gateway(429): counter((4, 0), (5, 100), (LONG, 0))},
    ),
    Case("requests are wrong", {9: ""}, {of_gateway(400): steady(100)}),
    Case(
        "slow for two minutes, and later for twenty",
        {4: "", 9: "", 24: "GatewaySlow", 34: ""},
        {
            faster_than(seconds): counter((2, 100), (2, 90), (6, 100), (15, 90), (LONG, 100))
            for seconds in ("0.5", "1")
        },
    ),
]

OF_ENSEMBLE, OF_ONE_MODEL = healthy(E, "a", "b"), healthy("alone")


def ensemble(generate: Generate) -> Project:
    """Generate the project that the cases are about: steps a, of which ten requests may wait, and b."""
    steps = [
        step("a", ["A"], ["B"], fuse=False, batching=QUEUE),
        step("b", ["B"], ["C"], "onnxruntime"),
    ]
    return generate(
        ensemble_name=E, tensors=dict.fromkeys("ABC", "FP32[1]"), steps=steps, max_batch_size=4
    )


def one_model(generate: Generate) -> Project:
    """Generate that of the cases without an ensemble."""
    tensors, steps = dict.fromkeys("AB", "FP32[1]"), [step("a", ["A"], ["B"], batching=QUEUE)]
    return generate(ensemble_name="alone", ensemble=False, tensors=tensors, steps=steps)


def with_gateway(generate: Generate) -> Project:
    """Generate that of the gateway's cases."""
    return generate(project_name="front", extras=["monitoring", "gateway"])


def unit_tests(cases: list[Case], metrics: dict[str, str]) -> str:
    """Return a file for `promtool test rules`. `metrics` are those of a server without trouble."""
    tests = [_unit_test(case, metrics | case.metrics) for case in cases]
    return yaml.safe_dump(
        {"rule_files": ["alerts.yml"], "evaluation_interval": f"{SECONDS}s", "tests": tests}
    )


def _unit_test(case: Case, metrics: dict[str, str]) -> dict[str, Any]:
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    asked = [
        _expectation(firing, minute, {f'{{alertname="{alert}"}}': 1 for alert in alerts.split()})
        for minute, alerts in case.fires.items()
    ]
    for name, count in (count.split("=") for count in case.counts.split()):
        rate = f"round(triton:{name}:rate2m, 0.01)"
        asked.append(_expectation(rate, max(case.fires), {'{job="triton"}': float(count)}))
    return {
        "name": case.name,
        "interval": f"{SECONDS}s",
        "input_series": [{"series": _scraped(s), "values": v} for s, v in metrics.items() if v],
        "promql_expr_test": asked,
    }


def _scraped(series: str) -> str:
    """Return a series with the label that Prometheus adds."""
    return series if 'job="' in series else series.replace("{", '{job="triton",', 1)


def _expectation(expression: str, minute: float, samples: dict[str, float]) -> dict[str, Any]:
    expected = [{"labels": labels, "value": value} for labels, value in samples.items()]
    return {"expr": expression, "eval_time": f"{minute * 60:g}s", "exp_samples": expected}
