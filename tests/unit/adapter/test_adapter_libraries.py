"""Steps on PyTorch tensors, and ONNX files in the process of Python steps, without Triton."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_triton
import numpy as np
import pytest
from fake_triton import Adapter
from onnx import TensorProto, helper, save

from triton_step import Context, Metrics


@pytest.fixture(scope="module")
def adapter() -> Iterator[Adapter]:
    with pytest.MonkeyPatch.context() as patch:
        yield fake_triton.install(patch)


class Shared(fake_triton.Tensor):
    """A tensor that PyTorch can share, unless its values are texts."""

    def __init__(self, name: str, array: Any, error: Any = None) -> None:
        super().__init__(name, array)
        self.error = error

    def to_dlpack(self) -> Any:
        if self.error:
            raise self.error
        return self.as_numpy().__dlpack__()


class TestTorch:
    """Arrays of a step that asks for PyTorch's."""

    @pytest.fixture
    def torch(self) -> Any:
        return pytest.importorskip("torch")

    @pytest.fixture
    def arrays(self, torch: Any, adapter: Adapter) -> Any:
        return adapter.arrays.LIBRARIES["torch"]("cpu")

    def test_a_tensor_is_read_without_a_copy(self, arrays: Any) -> None:
        array = np.ones(2, np.float32)
        read = arrays.read(Shared("A", array))
        assert isinstance(read, arrays.array_type)
        array[0] = 5
        assert read[0] == 5

    def test_texts_stay_numpy(self, adapter: Adapter, arrays: Any) -> None:
        texts = np.array([b"a"], object)
        error = adapter.arrays.pb_utils.TritonModelException()
        assert arrays.read(Shared("A", texts, error)) is texts
        assert arrays.dtype("object") == np.dtype(object)
        assert arrays.join([texts, texts]).tolist() == [b"a", b"a"]
        assert arrays.keep(texts).tolist() == [b"a"]
        assert arrays.lend(texts) is texts
        assert arrays.copy(texts) is not texts
        assert arrays.tensor("Y", texts).as_numpy() is texts

    def test_dtypes(self, torch: Any, arrays: Any) -> None:
        assert arrays.dtype("bfloat16") is torch.bfloat16

    def test_rows_are_joined(self, torch: Any, arrays: Any) -> None:
        joined = arrays.join([torch.ones(1, 2), torch.zeros(2, 2)])
        assert joined.tolist() == [[1, 1], [0, 0], [0, 0]]

    def test_an_output_is_contiguous_and_has_no_gradient(
        self, torch: Any, adapter: Adapter, arrays: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = SimpleNamespace(from_dlpack=lambda name, array: (name, array))
        monkeypatch.setattr(adapter.arrays.pb_utils, "Tensor", made)
        name, array = arrays.tensor("Y", torch.ones(2, 3, requires_grad=True).T)
        assert name == "Y"
        assert array.is_contiguous()
        assert not array.requires_grad

    def test_each_reader_gets_an_array_of_its_own(self, torch: Any, arrays: Any) -> None:
        kept = arrays.keep(torch.zeros(2, requires_grad=True))
        assert not kept.requires_grad
        for other in (arrays.lend(kept), arrays.copy(kept)):
            other[0] = 1
            assert kept.tolist() == [0, 0]
        assert arrays.lend(None) is None

    @pytest.mark.parametrize(
        ("reads", "output", "copies"), [("B", "C", 0), ("BB", "C", 2), ("B", "B", 1)]
    )
    def test_a_fused_step_gets_a_tensor_in_place_unless_others_have_it_too(
        self, torch: Any, adapter: Adapter, arrays: Any, reads: str, output: str, copies: int
    ) -> None:
        """`reads` is what the second step reads, `output` the model's output."""
        wrote, given = [], []

        def add(manifest: Any, *_: Any) -> Any:
            def start(inputs: list[Any]) -> dict[str, Any]:
                given.append([each.data_ptr() for each in inputs])
                wrote.append(inputs[0] + 1)
                return {"Y": wrote[-1]}

            counts = {"rejected": None, "failed": None, "count": lambda seconds: None}
            more = {"start": start, "check_outputs": lambda returned, rows: returned, **counts}
            return SimpleNamespace(name="add", logger=None, asynchronous=False, **more)

        def manifest(reads: str, writes: str) -> dict[str, Any]:
            inputs = [{"name": f"X{i}", "tensor": tensor} for i, tensor in enumerate(reads)]
            arguments = {each["name"]: each["name"] for each in inputs}
            outputs = [{"name": "Y", "tensor": writes}]
            return {"input": inputs, "arguments": arguments, "output": outputs, "parameters": {}}

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(adapter.fused, "UserStep", add)
            config = {"max_batch_size": 2, "input": [{"name": "A"}], "output": [{"name": output}]}
            steps = [manifest("A", "B"), manifest(reads, "C")]
            config["instance_group"] = []
            fused = adapter.fused.FusedSteps(steps, {}, config, arrays, None)
        assert fused.start([torch.ones(2, 3)])[output].shape == (2, 3)
        assert sum(pointer != wrote[0].data_ptr() for pointer in given[1]) == copies

    def test_a_step_that_returns_numpy_is_told(
        self, torch: Any, adapter: Adapter, arrays: Any
    ) -> None:
        config = {"name": "Y", "data_type": "TYPE_FP32", "dims": ["2"]}
        output = adapter.arrays.Output(config, True, arrays)
        output.check(torch.ones(1, 2), 1)
        with pytest.raises(adapter.arrays.StepError, match="return a PyTorch tensor"):
            output.check(np.ones((1, 2), np.float32), 1)


class TestOnnx:
    """An ONNX file as a step."""

    def make(
        self,
        adapter: Adapter,
        folder: Path,
        parameters: dict[str, str] | None = None,
        text: bool = False,
        **manifest: Any,
    ) -> Any:
        kind = TensorProto.STRING if text else TensorProto.FLOAT
        values = [helper.make_tensor_value_info(name, kind, [None]) for name in ("x:0", "y:0")]
        node = helper.make_node("Identity", ["x:0"], ["y:0"])
        graph = helper.make_graph([node], "g", values[:1], values[1:])
        opset = [helper.make_opsetid("", 17)]
        save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "m.onnx")
        given = {
            "name": "s",
            "file": "m.onnx",
            "threads": 1,
            "arguments": {"x": "x:0"},
            "input": [{"name": "x:0", "optional": False}],
            "output": [{"name": "y:0"}],
            **manifest,
        }
        context = Context(
            parameters=parameters or {},
            directory=folder,
            version="1",
            device="cpu",
            logger=logging.getLogger("s"),
            metrics=Metrics(),
            calls=SimpleNamespace(),
        )
        return adapter.user_step.step_class(given)(context)

    def test_tensors_have_the_files_names(self, adapter: Adapter, tmp_path: Path) -> None:
        step = self.make(adapter, tmp_path)
        outputs = step(x=np.ones(2, np.float32))
        assert outputs["y:0"].tolist() == [1, 1]

    def test_an_optional_input_may_be_missing(self, adapter: Adapter, tmp_path: Path) -> None:
        step = self.make(adapter, tmp_path)
        with pytest.raises(ValueError, match="x:0"):  # of the session, as it gets no input
            step(x=None)

    def test_texts_are_given_as_str(self, adapter: Adapter, tmp_path: Path) -> None:
        step = self.make(adapter, tmp_path, text=True)
        assert step(x=np.array(["ü".encode()], object))["y:0"].tolist() == ["ü"]

    @pytest.mark.parametrize(
        ("wrong", "text"),
        [
            ({"arguments": {"x": "x:0", "z": "z"}}, "has no input z; it has x:0"),
            ({"output": [{"name": "z"}]}, "has no output z; it has y:0"),
            ({"arguments": {}}, "needs the input x:0"),
        ],
    )
    def test_a_file_with_other_tensors(
        self, adapter: Adapter, tmp_path: Path, wrong: dict[str, Any], text: str
    ) -> None:
        with pytest.raises(adapter.arrays.StepError, match=f"step s: .*{text}"):
            self.make(adapter, tmp_path, **wrong)

    def test_parameters_say_how_many_threads(
        self, adapter: Adapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        onnx, asked = import_module("triton_ensemble.adapter.onnx"), list[int]()
        make = onnx.session_options

        def make_options(threads: int) -> Any:
            asked.append(threads)
            return make(threads)

        monkeypatch.setattr(onnx, "session_options", make_options)
        self.make(adapter, tmp_path, threads=1)
        self.make(adapter, tmp_path, {"intra_op_thread_count": "3"}, threads=1)
        assert asked == [1, 3]

    @pytest.mark.parametrize("threads", [0, 1, 3])
    def test_threads(self, adapter: Adapter, threads: int) -> None:
        onnx = import_module("triton_ensemble.adapter.onnx")
        options = onnx.session_options(threads)
        assert options.intra_op_num_threads == threads
        name = "session.intra_op.allow_spinning"
        if threads == 1:
            assert options.get_session_config_entry(name) == "0"
