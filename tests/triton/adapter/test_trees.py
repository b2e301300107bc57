"""Models of the FIL backend on the local Triton: the files that Treelite reads, and what their parameters say."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from support import Generate, Project, serve, step, succeed

pytestmark = pytest.mark.slow

REGRESSION, CLASSES = {"is_classifier": "false"}, {"output_class": "true", "threshold": "0.5"}
SCORES = {**CLASSES, "predict_proba": "true"}
# A tree of one split as XGBoost's JSON has it: 0.25 where feature 1 is below 2, otherwise 0.75.
XGBOOST: dict[str, Any] = {
    "version": [2, 1, 0],
    "learner": {
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {
            "name": "gbtree",
            "model": {
                "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": "1"},
                "iteration_indptr": [0, 1],
                "tree_info": [0],
                "trees": [
                    {
                        "base_weights": [0.0, 0.25, 0.75],
                        "categories": [],
                        "categories_nodes": [],
                        "categories_segments": [],
                        "categories_sizes": [],
                        "default_left": [1, 0, 0],
                        "id": 0,
                        "left_children": [1, -1, -1],
                        "loss_changes": [1.0, 0.0, 0.0],
                        "parents": [2147483647, 0, 0],
                        "right_children": [2, -1, -1],
                        "split_conditions": [2.0, 0.25, 0.75],
                        "split_indices": [1, 0, 0],
                        "split_type": [0, 0, 0],
                        "sum_hessian": [9.0, 5.0, 4.0],
                        "tree_param": {
                            "num_deleted": "0",
                            "num_feature": "13",
                            "num_nodes": "3",
                            "size_leaf_vector": "1",
                        },
                    }
                ],
            },
        },
        "learner_model_param": {
            "base_score": "0",
            "boost_from_average": "1",
            "num_class": "0",
            "num_feature": "13",
            "num_target": "1",
        },
        "objective": {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}},
    },
}


class Wines(NamedTuple):
    """Rows of a data set, and by a model's name its trees, its parameters, and what it must answer."""

    rows: NDArray[np.float32]
    models: dict[str, tuple[Any, dict[str, str], NDArray[Any]]]


@pytest.fixture(scope="module")
def wines() -> Wines:
    from sklearn.datasets import load_wine  # type: ignore[import-untyped]
    from sklearn.ensemble import (  # type: ignore[import-untyped]
        GradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
    )

    given, target = load_wine(return_X_y=True)
    given = given.astype(np.float32)
    rows = given[::7]
    forest = RandomForestClassifier(9, random_state=0).fit(given, target)
    boosted = GradientBoostingClassifier(n_estimators=9, random_state=0).fit(given, target == 1)
    regressor = HistGradientBoostingRegressor(max_iter=9).fit(given, given[:, 0])
    second = boosted.predict_proba(rows)[:, 1:]
    from_json = np.where(rows[:, [1]] < 2, 0.25, 0.75)
    return Wines(
        rows,
        {
            "scores": (forest, SCORES, forest.predict_proba(rows)),
            "classes": (forest, CLASSES, forest.predict(rows)[:, None]),
            "second": (boosted, SCORES, second),
            "both": (boosted, SCORES, boosted.predict_proba(rows)),
            "above": (boosted, {**CLASSES, "threshold": "0.7"}, second > 0.7),
            "number": (regressor, REGRESSION, regressor.predict(rows)[:, None]),
            "json": (None, {**REGRESSION, "model_type": "xgboost_json"}, from_json),
        },
    )


# By the model's name: parameters and dims of an output that do not do for the forest, and what Triton says.
REFUSED: dict[str, tuple[dict[str, str], int, str]] = {
    "pickled": (
        {"model_type": "pickle"},
        3,
        "pickle not recognized as a valid serialization format",
    ),
    "unclear": (
        {"threshold": "0.5"},
        3,
        "Required parameter is_classifier not found in config",
    ),
    "limitless": (
        {"is_classifier": "true"},
        3,
        "Required parameter threshold not found in config",
    ),
    "yes": (
        {"is_classifier": "yes"},
        3,
        "Expected 'true' or 'false' for parameter 'is_classifier', got: 'yes'",
    ),
    "narrow": (SCORES, 2, "output output__0 has dims [-1, 3] in the graph, not [-1, 2]"),
}


def answers(models: dict[str, tuple[dict[str, str], int]]) -> dict[str, Any]:
    """Return a pipeline of models that read the same rows: by name, parameters and dims of the output."""
    tensors, steps = {"ROW": "FP32[13]"}, []
    for name, (parameters, size) in models.items():
        parameters = {"model_type": "treelite_checkpoint", **parameters}
        file = "xgboost.json" if "json" in parameters["model_type"] else "checkpoint.tl"
        names = {"input__0": "ROW"}, {"output__0": name}
        steps.append(step(name, *names, "fil", file=file, parameters=parameters))
        tensors[name] = f"FP32[{size}]"
    more = {"max_batch_size": 32, "tensors": tensors, "steps": steps}
    return {"project_name": "wines", **more}


def write_trees(project: Project, trees: dict[str, Any]) -> None:
    """Write the model file of each step, in place of what its stub would make."""
    import treelite

    for name, model in trees.items():
        folder = project / "model_repository" / name / "1"
        folder.mkdir(parents=True, exist_ok=True)
        if model:
            treelite.sklearn.import_model(model).serialize(folder / "checkpoint.tl")
        else:
            (folder / "xgboost.json").write_text(json.dumps(XGBOOST))


def test_they_answer_as_the_original(generate: Generate, wines: Wines) -> None:
    models = {name: (given, wanted.shape[1]) for name, (_, given, wanted) in wines.models.items()}
    project = generate(**answers(models))
    assert json.loads((project / "vendor/project.json").read_text())["stand_ins"] == []
    write_trees(project, {name: trees for name, (trees, *_) in wines.models.items()})
    with serve(project) as server, project.client(server.urls["http"]) as client:
        answer = client.infer({"ROW": wines.rows})
    for name, (*_, wanted) in wines.models.items():
        np.testing.assert_allclose(answer[name], wanted, rtol=1e-6, atol=1e-6, err_msg=name)


def test_what_fil_refuses_is_refused(generate: Generate, wines: Wines) -> None:
    project = generate(
        **answers({name: (given, size) for name, (given, size, _) in REFUSED.items()})
    )
    write_trees(project, dict.fromkeys(REFUSED, wines.models["scores"][0]))
    printed = project.make("serve").stderr
    for name, (*_, said) in REFUSED.items():
        assert re.search(rf"failed to load '{name}' .*{re.escape(said)}", printed), printed


def test_the_check_says_what_fil_requires(generate: Generate) -> None:
    """Until then a stand-in answers."""
    tensors, trees = {"ROW": "FP32[13]", "OUT": "FP32[3]"}, step("trees", ["ROW"], ["OUT"], "fil")
    project = generate(project_name="wines", tensors=tensors, steps=[trees])
    assert json.loads((project / "vendor/project.json").read_text())["stand_ins"] == ["fil"]
    printed = succeed(project.make("check"))
    for said in ("model_type is missing", "is_classifier not found", "input is input__0"):
        assert said in printed
