"""The commands of README.md and of a generated project's README: each one is run by a test."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import yaml
from copier.errors import UserMessageError
from support import (
    COPIER,
    PIPELINES,
    ROOT,
    UNUSUAL,
    VENV,
    Generate,
    Project,
    problem,
    run,
    serve,
    slow_but,
    step,
    succeed,
)

# A command, and the test that runs it, or where a test cannot, what it stands for.
TESTED = {
    r"make": "test_projects.py::test_make_alone_lists_the_commands",
    r"make demo": "test_readme.py::test_demo",
    r"make test STRICT=1": "test_tutorials.py::test_it_goes_as_it_says",
    r"make test": "test_projects.py::test_the_default_project_passes_its_own_tests",
    r"make test-slow": "test_readme.py::test_the_ci_runs_the_readmes_test_commands",
    r"make test test-slow( ALL=1)?": "test_readme.py::test_the_ci_runs_the_readmes_test_commands",
    r"make setup": "test_readme.py::test_demo",
    r"make lint": "test_rendering.py::test_the_project_passes_its_own_linters",
    r"make check( FORMAT=\w+)?": "test_check.py::test_make_check",
    r"make repository": "test_projects.py::test_repository_copies_code_anew_and_makes_models_once",
    r"make serve( \w+_PORT=\d+)*": "test_projects.py::test_a_bad_request_fails_alone",
    r"(\.venv/bin/python -c .* \| )?curl .*": "test_readme.py::test_curl_of_a_generated_readme",
    r"make serve RELOAD=1": "test_reload.py::test_a_step_that_changes_answers_otherwise",
    r"make infer": "test_projects.py::test_infer_prints_the_right_labels",
    r"make step( \w+=\S+)*": "test_step.py::test_a_step_runs_on_what_the_steps_before_it_return",
    r"TRITON_URL=\S+ make (infer|test)": "test_projects.py::test_torchscript_serves_the_same_digits",
    r"make sample( .*)?": "test_samples.py::test_a_file_is_copied_beside_the_sample_of_its_name",
    r"make golden": "test_smoke.py::test_golden_answers",
    r"\S*python -m \w+ infer .*": "test_client.py::test_command_line",
    r"(PYTHONPATH=\S+ )?\S*python3? -m triton_ensemble.container.health.*": "test_health.py::test_it_sees_what_the_server_does_not",
    r"make bench( BASE=\S+)?( ARGS=.*)?": "test_bench.py::test_two_runs_are_compared",
    r"make tune( \w+=\S+)*": "test_tune.py::test_settings_are_found_and_written",
    r"TRITON_URL=grpc\S+ make (bench|tune)": "test_bench.py::test_two_runs_are_compared",
    r"tritonserver .* --model-control-mode=explicit .*": "test_tune.py::test_a_server_that_takes_no_configs",
    r"make add-step": "test_new.py::test_a_step_is_added_to_a_project",
    r"(uvx --from '[^']+' )?triton-ensemble new (myproj|DIR)": "test_new.py::test_a_fan_is_told_step_by_step",
    r"make lock": "test_readme.py::test_lock",
    r"make digests": "test_digests.py::test_a_project_takes_the_digest_of_its_tag_and_no_other",
    r"make update|copier update( --defaults --data-file \S+)?": "test_update.py::test_pipeline_yml_drives_an_update",
    r"make update ARGS=--vcs-ref=:current:": "test_update.py::test_the_version_can_stay",
    r"git (restore|clean) .*": "test_safe_update.py::test_a_conflict_is_one_of_git_and_the_way_back_works",
    r"copier update --skip-answered --ask steps": "test_update.py::test_one_question_can_be_asked_again",
    r"(PYTHONPATH=src python -m triton_ensemble|(uvx --from \S+ )?\S*triton-ensemble) check \S+": "test_check_command.py::test_it_runs_as_a_program_on_any_repository",
    r"\S*triton-ensemble check pipeline.yml": "test_pipeline.py::test_as_a_command",
    r"(uvx --from '[^']+' )?\S*triton-ensemble adopt REPOSITORY( > pipeline.yml)?": "test_adopt.py::test_as_a_command",
    r"(uvx --from '[^']+' )?\S*triton-ensemble adopt \w+ --into \S+ > pipeline.yml": "test_adopted_projects.py::test_in_the_folder_of_the_repository",
    r"git rm .*|rm -rf model_repository|copier copy --defaults --overwrite .*|git status": "test_adopted_projects.py::test_in_the_folder_of_the_repository",
    r"\S*triton-ensemble (--help|[A-Z]+( --help)?|\w+)": "test_cli.py::test_help",
    r"python -m (tools\.NAME|benchmarks\.\w+)": "test_architecture.py::test_the_files_that_a_page_names_exist",
    r"python -m benchmarks.rayserve.soak \[--in-process\]": "rayserve/test_soak.py::test_what_a_replica_uses_stays",
    r"docker run --env MODEL_REPOSITORY=.*": "test_push.py::test_triton_loads_what_was_pushed_and_answers",
    r"python3 -m venv build/export|build/export/bin/.*": "test_text_to_image_export.py::test_exported_models_make_the_images_of_diffusers",
    r"make dist": "test_delivery.py::test_the_sources_of_a_release_give_its_wheel",
    r"make wheel": "test_delivery.py::test_the_wheel_is_that_of_the_sources",
    r"PYTHONPATH=src \S*python scripts/check_page.py": "test_check_rules.py::test_the_page_is_made_of_the_rules",
    r"PYTHONPATH=src \S*python scripts/(fields_page|reference).py": "test_reference_pages.py::test_it_is_what_the_script_writes",
    r"PYTHONPATH=src \S*python scripts/schema.py": "test_schema.py::test_it_is_that_of_the_tables",
    r"(\w+=\d+ )*\S*python -m pytest .*": "test_readme.py::test_the_ci_runs_the_readmes_test_commands",
    r"uvx copier copy --defaults --data \w+=.+ \S+ \S+": "test_tutorials.py::test_it_goes_as_it_says",
    r"PYTHONPATH=src \.venv/bin/python ask.py|mkdir .*|cat .*": "test_tutorials.py::test_it_goes_as_it_says",
    r"kubectl kustomize deploy/kubernetes": "cluster/test_tutorial.py::test_it_goes_as_it_says",
    r"copier copy|(uvx |pipx run |\S*bin/)?copier copy( --defaults)?( --vcs-ref \S+)? \S+ \S+": "test_rendering.py::test_from_git",
    r"(uvx |pipx run |\S*bin/)?copier copy --defaults --data-file \S+ \S+ \S+": "test_answers.py::test_the_command_prints_one_line",
    r"(python3? -m )?(pip|pipx|uv tool) install '?copier\S*": "test_answers.py::test_the_command_prints_one_line",
    r"cd \S+|git (init( --quiet)?|add --all|commit .*|clone .*)": "test_projects.py::test_a_fresh_clone_of_the_project_still_serves",
    r"\.venv/bin/pip (uninstall --yes onnxruntime|install 'onnxruntime-gpu\S+')": "test_gpu.py::test_an_onnxruntime_without_cuda_says_so",
    r"make engines": "test_engines.py::test_make_engines_builds_in_the_image_of_the_release",
    r"make gateway-image": "docker/test_gateway.py::test_nothing_else_is_published",
    r"make up TRITON_PORTS=1": "docker/test_gateway.py::test_tritons_ports_are_there_where_somebody_asks",
    r"make image( \w+=\S*)*": "docker/test_image.py::test_labels_say_what_the_image_is",
    r"(\w+=\w+ )?make (up|down)( \w+=\S*)*": "docker/test_image.py::test_make_up_serves_and_make_down_leaves_nothing",
    r"kubectl (apply -k deploy/kubernetes|rollout status \S+|port-forward \S+ 8001)|docker push \S+": "cluster/test_kubernetes.py::test_each_combination_is_sound",
    r"make \.venv/\.tir|PYTHONPATH=\.venv/tir .*list_plans.*": "cluster/test_tir.py::test_the_sdk_lists_plans_as_the_file_names_them",
    r"make tir( PRINT=1)?": "cluster/test_tir.py::test_the_sdk_sends_what_the_file_says_of_tirs_own_image",
    r"TRITON_URL=grpc\S+ make infer": "docker/test_kubernetes.py::test_it_starts_answers_and_its_probes_see_a_dead_process",
    r"kubectl (apply -k deploy/kserve|(create|annotate) secret .*|wait .* inferenceservice/\S+|port-forward deployment/\S+ 8000)|oc .*": "cluster/test_kserve.py::test_each_combination_is_sound",
    r"pip install \. pyyaml notebook|URL=.* jupyter notebook \S+": "cluster/test_endpoints.py::test_a_notebook_is_answered_over_tls",
    r"make shift( \w+=\S+)* ROLL=.*": "cluster/test_rolling_shift.py::test_a_shift_and_a_rollback_roll_the_pods",
    r"uri=.*|kubectl wait deployment/.*": "cluster/test_kserve_roll.py::test_the_documented_roll_waits_for_the_controller",
    r"tag=\S+ \S+|sed -i .*": "test_shift.py::test_the_documented_roll_of_an_image_changes_its_tag",
    r"make publish .* STORE=\S+": "test_version_store.py::test_what_is_published_is_in_the_bucket_by_its_digest",
    r"make (publish|shift|rollback|unload)( \w+=\S+)*|make serve CONTROL=explicit": "test_shift.py::test_no_request_fails_while_a_server_is_shifted_and_rolled_back",
    r"(TRITON_URL=\S+ )?make gateway( WORKERS=\d)?": "test_gateway.py::test_one_command",
    r"curl -F IMAGE=\S+ http://127.0.0.1:8080/predict": "test_gateway.py::test_files_are_rows_in_their_order",
    r"make ray( RAY_REPLICAS=\d)?|curl -F IMAGE=\S+ http://127.0.0.1:8090/predict": "rayserve/test_command.py::test_it_ends_with_all_that_it_started",
    r"make ray-test": "rayserve/test_command.py::test_the_smoke_tests_pass",
    r"make ray-image RAY_IMAGE=\S+": "rayserve/test_image.py::test_each_replica_has_a_triton_of_the_image",
    r"make repository \.venv/\.ray|export PYTHONPATH=\S+|\S*ray start \S+|RAY_ADDRESS=\S+ make ray": "rayserve/test_command.py::test_a_cluster_that_runs_is_used_and_stays",
    r"kubectl apply -k deploy/ray": "cluster/test_ray.py::test_it_is_sound",
    r"make test-ray": "test_readme.py::test_the_ci_runs_the_readmes_test_commands",
    r"make push( \w+=\S+)*": "test_push.py::test_a_version_is_complete_and_the_next_has_what_changed",
    r"make links": "test_site.py::test_a_link_that_leads_nowhere_is_found",
    r"make docs": "test_site.py::test_it_is_built_and_loads_nothing_from_elsewhere",
    r"make test-browser": "browser/test_page.py::test_a_sample_is_asked",
    r"make dashboard": "test_pictures.py::test_the_dashboard_of_the_docs_is_that_of_the_template",
    r"make test-cluster( SLOW=1)?": "test_readme.py::test_the_ci_runs_the_readmes_test_commands",
    r"(REQUIRE_DOCKER=1 )?make test-docker": "docker/test_image.py::test_a_project_passes_its_container_tests",
}

FOLDERS = (".", "docs", "examples/*", "benchmarks/*")
PAGES = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}/*.md"))
README = (ROOT / "README.md").read_text()
QUESTIONS = (ROOT / "docs/questions.md").read_text()


def blocks(language: str, text: str = README) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    return [dedent(code) if margin else code for margin, code in found]


def commands(text: str) -> list[str]:
    """Return the commands in blocks of shell, and in the text what begins like one."""
    typed = re.findall(r"^\$ (.*)", "\n".join(blocks("console", text)), re.MULTILINE)
    lines = "\n".join([*blocks("sh", text), *typed]).replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in re.sub(r"(^|\s)#.*", "", line).split("&&")]
    programs = r"copier|uvx|pipx|\S*triton-ensemble|\S*python3? (?:-m|scripts/\w+.py)"
    inline = re.findall(rf"`((?:\w+=\S+ )*(?:make\b[^`]*|(?:{programs}) [^`|]+))`", text)
    return [" ".join(part.split()) for part in parts + inline if part.strip()]


def assert_tested(text: str) -> None:
    listed = commands(text)
    untested = [c for c in listed if not any(re.fullmatch(known, c) for known in TESTED)]
    assert untested == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_the_documentation(path: Path) -> None:
    assert_tested(path.read_text())


def targets(makefile: Path) -> set[str]:
    """Return what `make` can be asked for."""
    rules = re.findall(r"^([\w$()/. -]+):(?!=)", makefile.read_text(), re.MULTILINE)
    return {name.replace("$(VENV)", ".venv") for rule in rules for name in rule.split()}


def test_each_target_that_a_page_names_is_in_a_makefile(generate: Generate) -> None:
    """In that of this repository, or of a project with all extras and with engines to build."""
    everything = generate(
        gpu_count=1,
        extras=["monitoring", "gateway", "kubernetes", "kserve", "tir", "ray"],
        tensors={"A": "FP32[4]", "B": "FP32[4]"},
        steps=[step("net", {"a": "A"}, {"b": "B"}, "tensorrt", trtexec=True)],
    )
    known = targets(ROOT / "Makefile") | targets(everything / "Makefile")
    named = {
        word
        for path in PAGES
        for command in commands(path.read_text())
        if (made := re.fullmatch(r"(?:\w+=\S+ )*make\b(.*)", command))
        for word in re.sub(r"\w+=('[^']*'|\"[^\"]*\"|\S+)?", "", made[1]).split()
    }
    assert named - known == set()
    assert len(named) > 30


def test_each_option_that_a_page_names_is_one_of_its_command() -> None:
    sections = (ROOT / "docs/cli.md").read_text().split("\n## ")
    helps = {section.partition("\n")[0]: section for section in sections}
    said = re.compile(r"\btriton-ensemble ([a-z-]+)([^`\n|>&]*)")
    named = [
        (path.name, command, option)
        for path in PAGES
        for command, rest in said.findall(path.read_text().replace("\\\n", " "))
        for option in re.findall(r"--[a-z-]+", rest)
    ]
    assert [each for each in named if each[2] not in helps[each[1]]] == []
    assert len(named) > 4


def test_commands_of_a_generated_readme(generate: Generate) -> None:
    text = (generate(gpu_count=1) / "README.md").read_text()
    assert {"make infer", "make test"} <= {*commands(text)} & {*commands(README)}
    assert_tested(text)


def test_the_tests_that_run_the_commands_exist() -> None:
    for reference in TESTED.values():
        name, _, test = reference.partition("::")
        assert f"def {test}(" in (ROOT / "tests" / name).read_text(), reference


def test_links_of_the_readme_lead_to_files() -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", README)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_readme_is_three_screens() -> None:
    """What somebody reads before deciding; the rest is in docs/."""
    assert len(README.splitlines()) <= 130
    assert max(map(len, re.sub(r"^\|.*", "", README, flags=re.MULTILINE).splitlines())) <= 120


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return an environment that has what ours has, and that a test may install into."""
    succeed(run(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=tmp_path))
    [packages] = tmp_path.glob("venv/lib/python*/site-packages")
    [ours] = VENV.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(f"{ours}\n")
    for name in ("copier", "pip"):
        (tmp_path / "venv/bin" / name).write_text(
            f'#!/bin/sh\nexec {tmp_path}/venv/bin/python -m {name} "$@"\n'
        )
        (tmp_path / "venv/bin" / name).chmod(0o755)
    return tmp_path / "venv"


def test_demo(git_template: Path, environment: Path, tmp_path: Path) -> None:
    """The project makes its environment itself; that of this repository is the one the tests run in."""
    ready = f"--assume-old={environment / '.ready'}"
    options = (ready, f"VENV={environment}", f"DEMO={tmp_path / 'demo'}", "HTTP_PORT=1")
    printed = succeed(run("make", *options, "demo", cwd=git_template, PIP_NO_INDEX="1"))
    assert re.findall(r"LABEL: (.*)", printed) == ["7", "7", "2", "6"]


def test_the_pipeline_and_the_step_of_the_questions(generate: Generate) -> None:
    [answers], [step] = blocks("yaml", QUESTIONS), blocks("python", QUESTIONS)
    project = generate(**yaml.safe_load(answers))
    (project / step.split()[1]).write_text(step)
    succeed(project.make("lint"))
    with serve(project) as server, project.client(server.urls["http"]) as client:
        items = np.arange(100, 200)[None]
        outputs = client.infer({"USER": np.ones((1, 1), dtype=np.int64), "ITEMS": items})
    assert sorted(outputs["BEST"][0]) == sorted(set(outputs["BEST"][0]) & set(items[0]))


def test_the_error_of_the_questions(generate: Generate) -> None:
    [answers], [line] = blocks("yaml", QUESTIONS), blocks("console", QUESTIONS)
    wrong = answers.replace("[SCORES, ITEMS]", "[SCORE, ITEMS]")
    with pytest.raises(UserMessageError) as raised:
        generate(**yaml.safe_load(wrong))
    assert problem(raised.value) == line.strip()


@pytest.mark.slow
def test_lock(generate: Generate, environment: Path) -> None:
    """Both locks have what the commands need, at one version each, and leave the toolkit to vendor/."""
    project = generate(**PIPELINES["my own"])
    ready = f"--assume-old={environment / '.packages'}"
    succeed(project.run("make", ready, f"VENV={environment}", "lock"))
    versions: dict[str, dict[str, str]] = {}
    for name in ("requirements.lock", "requirements-dev.lock"):
        lock = (project / name).read_text()
        assert re.findall(r"^#.*", lock, re.MULTILINE)[-1].split("#")[-1].strip() == "make lock"
        assert "--hash=sha256:" in lock
        assert "://" not in lock
        versions[name] = dict(re.findall(r"^([\w-]+)==(\S+)", lock, re.MULTILINE))
    run_time, development = versions.values()
    assert {"nvidia-pytriton", "numpy", "pyyaml", "tritonclient"} <= run_time.keys()
    assert {"mypy", "pytest", "ruff"} <= development.keys()
    assert "triton-ensemble" not in run_time.keys() | development.keys()
    shared = run_time.keys() & development.keys()
    assert [name for name in shared if run_time[name] != development[name]] == []


def test_the_ci_runs_the_readmes_test_commands() -> None:
    text = (ROOT / ".ci/run").read_text()
    found = re.findall(r"\bsuites ([a-z -]+[a-z])", text)
    suites = {suite for line in found for suite in line.split()}
    assert suites == {name for name in targets(ROOT / "Makefile") if name.startswith("test")} | {
        "docs"
    }
    assert text.index("source .ci/engine") < text.index("REQUIRE_DOCKER=1 suites test-docker")


def test_python_of_a_generated_readme(default_project: Project) -> None:
    """Its `...` stands for a request, its address for that of a server."""
    readme = (default_project / "README.md").read_text()
    [code] = blocks("python", readme)
    image = (default_project / "samples/digit-7.jpg").read_bytes()
    with serve(default_project) as server, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(default_project / "src")
        names: dict[str, Any] = {"image": [image]}
        assert code.count("...") == 1
        code = code.replace("...", "image").replace("http://127.0.0.1:8000", server.urls["http"])
        exec(code, names)
    assert names["answer"].LABEL.tolist() == [[b"7"]]


@pytest.mark.parametrize(
    "name",
    slow_but(
        "image in one process",
        names=[
            "fan that joins",
            "awkward names",
            "sequence",
            "decoupled",
            "image in one process",
        ],
    ),
)
def test_curl_of_a_generated_readme(generate: Generate, name: str) -> None:
    """It is answered as it stands there, but for the port."""
    project = generate(**(PIPELINES | UNUSUAL)[name])
    command = blocks("sh", (project / "README.md").read_text())[1]
    assert max(map(len, command.splitlines())) < 400
    with serve(project) as server:
        command = command.replace("http://127.0.0.1:8000", server.urls["http"])
        command = command.replace(".venv/bin/python", sys.executable)
        shell = f"set -o pipefail; {command.replace('curl', 'curl --silent --show-error --fail-with-body')}"
        answer = succeed(project.run("bash", "-c", shell))
    shown = next(iter(json.loads((project / "vendor/project.json").read_text())["outputs"]))
    assert shown in answer


def test_what_curl_can_not_send(generate: Generate) -> None:
    readme = (generate(**UNUSUAL["BF16"]) / "README.md").read_text()
    assert "(Triton has no JSON for FP16 and BF16, so curl is of no use)" in readme
    assert "curl --" not in readme


def test_the_first_screen_of_a_generated_readme(default_project: Project) -> None:
    """What it is, three commands, a line for a shell and one for Python stand before any table."""
    lines = (default_project / "README.md").read_text().splitlines()
    first = "\n".join(lines[:45])
    assert [command.split("#")[0].strip() for command in blocks("sh", first)[0].splitlines()] == [
        "make infer",
        "make serve",
        "make test",
    ]
    assert "curl --data-binary @samples/digit-7.jpg" in first
    assert "with Client(" in first
    assert "\n|" not in first


def test_copier_is_new_enough() -> None:
    """The oldest version that copier.yml allows is not above the one that tests run with."""
    wanted = re.search(r'_min_copier_version: "(.*)"', (ROOT / "copier.yml").read_text())
    assert wanted
    version = succeed(run(str(COPIER), "--version", cwd=ROOT)).split()[-1]
    assert [int(n) for n in version.split(".")] >= [int(n) for n in wanted[1].split(".")]
