"""Random mutations of the fields and the wiring of model repositories, by what Triton documents.

Fields are those of model_config.proto with what its comments and the pages on model configuration, batchers,
ensembles, decoupled models and the Python backend say of them. A server without GPUs can't be asked about GPUs, and
none is asked for more memory than a machine has.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from served_shapes import Config, Draft

INT, TEXTS, BOOL, FLOAT, ENUM, MESSAGE = 5, 9, 8, (1, 2), 14, 11
DIMS = (-1, -1, 1, 2, 4, 4, 5, 8, 0, -2)
NUMBERS = {
    "dims": DIMS, "shape": DIMS, "model_version": (-1, 0, 1, 2, -2), "versions": (1, 1, 2, 0, -1),
    "count": (0, 1, 2, 3, -1), "max_batch_size": (0, 1, 2, 4, 8, 16, -1),
    "num_versions": (0, 1, 2), "default_priority_level": (0, 1, 2, 3),
    "priority_levels": (0, 1, 2, 5), "max_candidate_sequences": (0, 1, 2, 64, -1),
    "level": (0, 1, -1), "device_id": (0, 1), "max_sequence_idle_microseconds": (0, 1_000_000, 60_000_000),
}  # fmt: skip
ANY_NUMBER = (0, 1, 2, 3, 4, 8, 9, 100, -1)
# GPUs, and the libraries of repository agents: the local server has none.
UNASKED = {"gpus", "secondary_devices", "device_id", "agents"}
Place = tuple[Any, Any]  # a message and the descriptor of a field of it


class Mutations:
    """What can change of a draft; each public method changes one thing, or nothing where there is no such thing."""

    def __init__(self, chance: random.Random, draft: Draft) -> None:
        self.chance = chance
        self.draft = draft
        self.name, self.config = self._one(draft.configs.items())

    def _one(self, choices: Any) -> Any:
        return self.chance.choice(list(choices))

    def _maybe(self, choices: Any) -> Any:
        return self._one(list(choices) or [None])

    def _those(self, test: Any) -> None:
        """Go on with a model that passes a test, if there is one."""
        if found := [each for each in self.draft.configs.items() if test(each[1])]:
            self.name, self.config = self._one(found)

    def _step_of(self) -> Any:
        self._those(lambda config: config.ensemble_scheduling.step)
        return self._one(self.config.ensemble_scheduling.step)

    def _served(self) -> Config:
        self._those(lambda config: config.backend == "python")
        return self.config

    def _tensor(self) -> Any:
        return self._one([*self.config.input, *self.config.output])

    # Any field of a config.

    def a_field(self) -> None:
        places = list(all_places(self.config))
        message, field = self._one([p for p in places for _ in range(4 if is_set(p) else 1)])
        if is_map(field):
            self._an_entry(getattr(message, field.name), field)
        elif is_repeated(field):
            self._an_item(message, field)
        elif is_set((message, field)) and self.chance.random() < 0.3:
            message.ClearField(field.name)
        elif field.type == MESSAGE:
            getattr(message, field.name).SetInParent()
            self._in_new(getattr(message, field.name))
        else:
            setattr(message, field.name, self._value(field))

    def _in_new(self, message: Any) -> None:
        """Fill some fields of a message."""
        for field in message.DESCRIPTOR.fields:
            if self.chance.random() < 0.6 and not is_map(field) and field.name not in UNASKED:
                if is_repeated(field):
                    self._an_item(message, field)
                elif field.type == MESSAGE:
                    getattr(message, field.name).SetInParent()
                else:
                    setattr(message, field.name, self._value(field))

    def _value(self, field: Any) -> Any:
        if field.type == ENUM:
            return self._one(
                v.number for v in field.enum_type.values if v.name not in ("KIND_GPU", "TYPE_BF16")
            )
        if field.type == BOOL:
            return self._one([True, False])
        if field.type in FLOAT:
            return self._one([0.0, 0.5, 1.0, 2.0, -1.0])
        if field.type == TEXTS:
            return self._one([*self._words(), "", "other", "a b", "x.txt"])
        number = self._one(NUMBERS.get(field.name, ANY_NUMBER))
        return max(number, 0) if field.type in (4, 13) else number

    def _words(self) -> list[str]:
        """Return names of models and tensors."""
        configs = self.draft.configs.values()
        return [*self.draft.configs, *(t.name for c in configs for t in [*c.input, *c.output])]

    def _an_item(self, message: Any, field: Any) -> None:
        items = getattr(message, field.name)
        what = self._one(["add", "remove", "twice", "swap"]) if items else "add"
        if what == "remove":
            del items[self.chance.randrange(len(items))]
        elif what == "swap":
            items.insert(0, items.pop())
        elif field.type == MESSAGE:
            new = items.add()
            new.CopyFrom(self._one(items)) if what == "twice" else self._in_new(new)
        elif what == "twice":
            items.append(self._one(items))
        elif items and self.chance.random() < 0.6:
            items[self.chance.randrange(len(items))] = self._value(field)
        else:
            items.append(self._value(field))

    def _an_entry(self, entries: Any, field: Any) -> None:
        key_field, value_field = field.message_type.fields
        what = self._one(["add", "remove", "key", "value"]) if entries else "add"
        key = self._maybe(sorted(entries))
        new = key if what == "value" else self._value(key_field)
        if value_field.type == MESSAGE:
            entries[new].SetInParent()
            if what == "key":
                entries[new].CopyFrom(entries[key])
            else:
                self._in_new(entries[new])
        elif what != "remove":
            entries[new] = entries[key] if what == "key" else self._value(value_field)
        if (what in ("remove", "key") and new != key) or what == "remove":
            del entries[key]

    # Tensors and wiring.

    def a_type(self) -> None:
        self._tensor().data_type = self._one([1, 2, 6, 8, 9, 10, 11, 12, 13])

    def dims(self) -> None:
        tensor = self._tensor()
        place, size = self.chance.randrange(len(tensor.dims)), self._one(DIMS)
        before = list(tensor.dims)
        tensor.dims[:] = self._one(
            [
                [*before[:place], size, *before[place + 1 :]],
                [*before, size],
                before[:-1],
                [size, *before],
            ]
        )

    def reshape(self) -> None:
        tensor = self._tensor()
        tensor.reshape.SetInParent()
        tensor.reshape.shape[:] = self._one(
            [[], [4], [2, 2], [-1], [1, *tensor.dims], [*tensor.dims, 1], [-1, 1], [16]]
        )

    def a_name(self) -> None:
        self._tensor().name = self._one([*self._words(), "another", ""])

    def a_name_everywhere(self) -> None:
        """Rename a tensor of a model, and in the maps of its readers."""
        tensor, new = (
            self._tensor(),
            self._one(["another", "with blank", "a/b", "\u00e4", "x" * 200]),
        )
        for config in self.draft.configs.values():
            for step in config.ensemble_scheduling.step:
                for entries in (step.input_map, step.output_map):
                    if step.model_name == self.name and tensor.name in entries:
                        entries[new] = entries[tensor.name]
                        del entries[tensor.name]
        tensor.name = new

    def optional(self) -> None:
        item = self._one(self.config.input)
        item.optional = not item.optional

    def a_map_value(self) -> None:
        step = self._step_of()
        entries = self._one([step.input_map, step.output_map])
        known = {
            v
            for s in self.config.ensemble_scheduling.step
            for v in (*s.input_map.values(), *s.output_map.values())
        }
        entries[self._maybe(sorted(entries)) or "X"] = self._one([*sorted(known), "nowhere"])

    def a_map_less(self) -> None:
        entries = self._one([(s := self._step_of()).input_map, s.output_map])
        del entries[self._one(sorted(entries))]

    def a_map_more(self) -> None:
        step = self._step_of()
        self._one([step.input_map, step.output_map])[self._one(self._words())] = self._one(
            ["m", "X", "Y", "new"]
        )

    def a_step_less(self) -> None:
        self._step_of()
        steps = self.config.ensemble_scheduling.step
        del steps[self.chance.randrange(len(steps))]

    def a_step_twice(self) -> None:
        self.config.ensemble_scheduling.step.add().CopyFrom(self._step_of())

    def steps_in_another_order(self) -> None:
        self._step_of()
        steps = self.config.ensemble_scheduling.step
        steps.insert(0, steps.pop())

    def another_model(self) -> None:
        self._step_of().model_name = self._one([*self.draft.configs, "nobody"])

    def an_output_less(self) -> None:
        del self.config.output[-1]

    def an_input_more(self) -> None:
        self.config.input.add(name=self._one(["more", "X"]), data_type=11, dims=[4])

    def an_output_more(self) -> None:
        self.config.output.add(name=self._one(["more", "m", "Y"]), data_type=11, dims=[4])

    def a_batch_size(self) -> None:
        self.config.max_batch_size = self._one([0, 1, 2, 4, 8, 16])

    def batch_sizes(self) -> None:
        size = self._one([0, 1, 2, 16])
        for config in self.draft.configs.values():
            config.max_batch_size = size

    # What models do with requests.

    def decoupled(self) -> None:
        policy = self.config.model_transaction_policy
        policy.decoupled = not policy.decoupled

    def batching(self) -> None:
        self.config.dynamic_batching.SetInParent()
        self._in_new(self.config.dynamic_batching)

    def a_queue_policy(self) -> None:
        batching = self._served().dynamic_batching
        batching.priority_levels = self._one([0, 1, 2, 3])
        batching.default_priority_level = self._one([0, 1, 2, 3])
        batching.priority_queue_policy[self._one([0, 1, 2, 3])].max_queue_size = self._one([0, 5])

    def a_sequence(self) -> None:
        batching = self._served().sequence_batching
        self._one([batching.direct, batching.oldest]).SetInParent()
        self.a_control(batching)

    def a_control(self, given: Any = None) -> None:
        batching = given or self._served().sequence_batching
        control = batching.control_input.add(
            name=self._one(["C", "START", "ID", *self._words()])
        ).control.add()
        control.kind = self.chance.randrange(4)
        flags = self._one(
            [control.int32_false_true, control.fp32_false_true, control.bool_false_true]
        )
        flags.extend(self._one([[], [0, 1], [1, 0], [1], [0, 0, 1]]))
        control.data_type = self._one([0, 0, 5, 9, 13, 11])

    def a_state(self) -> None:
        state = self._served().sequence_batching.state.add(input_name=self._one(["S", "U", "X"]))
        state.output_name, state.data_type = self._one(["T", "V", "Y"]), self._one([0, 8, 8, 11])
        state.dims.extend(self._one([[], [4], [-1], [0]]))
        if self.chance.random() < 0.5:
            first = state.initial_state.add(
                name="i", data_type=self._one([8, 11]), dims=self._one([[4], [2], [-1], []])
            )
            self._one(
                [
                    lambda: setattr(first, "zero_data", True),
                    lambda: setattr(first, "data_file", "no"),
                ]
            )()

    def versions(self) -> None:
        policy = self.config.version_policy
        choice = self._one([policy.latest, policy.all, policy.specific])
        choice.SetInParent()
        self._in_new(choice)

    def instances(self) -> None:
        group = self.config.instance_group.add(
            kind=self._one([0, 2, 2, 3]), count=self._one([0, 1, 2, -1])
        )
        group.name = self._one(["", "g", "a/b"])

    def a_warmup(self) -> None:
        warmup = self._served().model_warmup.add(
            name=self._one(["", "w"]), batch_size=self._one([0, 1, 2, 99])
        )
        for tensor in self.config.input:
            given = warmup.inputs[self._one([tensor.name] * 5 + ["no"])]
            given.data_type = self._one([tensor.data_type] * 5 + [8])
            given.dims.extend(
                self._one([[abs(d) for d in tensor.dims], list(tensor.dims), [3], []])
            )
            kind = self._one(["zero_data", "random_data", "input_data_file"])
            setattr(
                given, kind, "no" if kind == "input_data_file" else self._one([True, True, False])
            )

    def a_cache(self) -> None:
        self.config.response_cache.enable = self._one([True, False])

    def a_batch_input(self) -> None:
        given = self._served().batch_input.add(
            kind=self.chance.randrange(6), data_type=self._one([8, 11, 9, 0])
        )
        given.target_name.extend(self._one([["B"], [], ["B", "C"], ["X"]]))
        given.source_input.extend(self._one([[self.config.input[0].name], [], ["no"], ["X", "X"]]))

    def ragged(self) -> None:
        tensor = self._one(self.config.input)
        tensor.allow_ragged_batch = not tensor.allow_ragged_batch

    def labels(self) -> None:
        self._one(self.config.output).label_filename = self._one(
            ["no.txt", "config.pbtxt", "labels.txt", "../e/config.pbtxt"]
        )

    def a_format(self) -> None:
        self._one(self.config.input).format = self._one([1, 2])

    def a_parameter(self) -> None:
        key = self._one(["EXECUTION_ENV_PATH", "FORCE_CPU_ONLY_INPUT_TENSORS", "any", ""])
        self.config.parameters[key].string_value = self._one(
            ["yes", "no", "NO", "true", "", "env.tar.gz", "$$TRITON_MODEL_DIRECTORY/env"]
        )

    def a_platform(self) -> None:
        self.config.platform = self._one(
            ["", "ensemble", "python", "onnxruntime_onnx", "pytorch_libtorch", "other"]
        )

    def a_backend(self) -> None:
        self.config.backend = self._one(["", "python", "Python", "pyton", "ensemble", "onnx"])

    def a_file_name(self) -> None:
        self.config.default_model_filename = self._one(
            ["model.py", "other.py", "model.onnx", "a/model.py", ""]
        )


def is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def is_map(field: Any) -> bool:
    return field.type == MESSAGE and bool(field.message_type.GetOptions().map_entry)


def is_set(place: Place) -> bool:
    message, field = place
    return any(each.name == field.name for each, _ in message.ListFields())


def all_places(message: Any) -> Iterator[Place]:
    """Iterate over the fields of a message and of those that it has."""
    for field in message.DESCRIPTOR.fields:
        if field.name in UNASKED:
            continue
        yield message, field
        if field.type != MESSAGE or not is_set((message, field)):
            continue
        value = getattr(message, field.name)
        if not is_map(field):
            inner = value if is_repeated(field) else [value]
        elif field.message_type.fields[1].type == MESSAGE:
            inner = [value[key] for key in sorted(value)]
        else:
            inner = []
        for each in inner:
            yield from all_places(each)


# All that change what a config means; `a_field` changes any field at all.
MEANINGS = sorted(name for name in vars(Mutations) if name[0] != "_" and name != "a_field")
