"""Attention by GroupQueryAttention, also of several tokens as single steps in one call.

That node computes one query in another way than several, so the last bits of a token depend on
whether it was decoded alone or read among others. To verify what a draft proposes, the bits must be
those of decoding: each token gets a node of its own, one after the other, which all write into the
same cache; everything else in the graph is computed once for all of them.

In place: all `present.{layer}.{part}.{step}` of the steps taken are to be bound to the memory of
`past_key_values.{layer}.{part}`, in a row of its own. Those of other steps hold one number.
"""

from collections.abc import Callable, Sequence
from typing import Final

from onnx import TensorProto, helper

from export.config import GPT2Config
from export.nodes import MICROSOFT, Nodes

STEPWISE: Final = "stepwise"  # the input that asks for steps, a bool
MOST_STEPS: Final = 8  # the most in one call; each adds nodes, and so time to load the graph
LAST_PLACES: Final = "last_places"  # where each row's last new token goes: [B], int32
LONGEST_LENGTH: Final = "longest_length"  # of all rows, int32

Make = Callable[[Nodes], Sequence[str]]  # adds nodes, and returns the names of their results


def step_outputs(layer: int) -> list[str]:
    """Return the outputs of the steps after the first, which has `present.{layer}.*` itself."""
    present = f"present.{layer}"
    return [f"{present}.{part}.{step}" for step in range(1, MOST_STEPS) for part in _PARTS]


def attend_grouped(g: Nodes, config: GPT2Config, packed: str, layer: int) -> str:
    """Add the layer's new keys and values to the cache and mix: [B, S, 3E] -> [B, S, E]."""
    outputs = [f"h.{layer}.attn.mixed", *(f"present.{layer}.{part}" for part in _PARTS)]
    return _add_node(g, config, layer, [packed, LAST_PLACES, LONGEST_LENGTH], outputs)


def locate_steps(g: Nodes) -> None:
    """Derive from `position_ids` [1, S] which steps there are, and where each of them goes."""
    first = g.add("Gather", ["position_ids", g.constant("first", 0)], "first_position", axis=1)
    shape = g.add("Shape", ["input_ids"], "step.shape", start=1, end=2)
    count = g.add("Squeeze", [shape], "step.count")
    for step in range(MOST_STEPS):
        place = g.add("Add", [first, g.constant(f"step.{step}", [step])], f"step.{step}.position")
        g.add("Cast", [place], f"step.{step}.place", to=TensorProto.INT32)  # [1]
        before = g.add("Sub", [place, g.constant("step.1", [1])], f"step.{step}.position_before")
        g.add("Cast", [before], f"step.{step}.before", to=TensorProto.INT32)  # [1]
        after = g.add("Add", [place, g.constant("step.1", [1])], f"step.{step}.position_after")
        length = g.add("Squeeze", [after], f"step.{step}.length_after")
        g.add("Cast", [length], f"step.{step}.length", to=TensorProto.INT32)
        g.add("Greater", [count, g.constant(f"step.{step}.number", step)], f"step.{step}.taken")


def attend_by_steps(g: Nodes, config: GPT2Config, packed: str, layer: int) -> str:
    """Attend as `attend_grouped`, or where `stepwise` says so to one token after the other."""
    name = f"h.{layer}.attn"
    presents = [f"present.{layer}.{part}" for part in _PARTS]

    def read(branch: Nodes) -> list[str]:
        outputs = [f"{name}.read", *(f"{present}.read" for present in presents)]
        _add_node(branch, config, layer, [packed, LAST_PLACES, LONGEST_LENGTH], outputs)
        return [*outputs, *_fill(branch, f"{name}.unread", 2 * (MOST_STEPS - 1))]

    def step(branch: Nodes) -> list[str]:
        taken = [_add_step(branch, config, packed, layer, number) for number in range(MOST_STEPS)]
        mixed = branch.add("Concat", [outputs[0] for outputs in taken], f"{name}.stepped", axis=1)
        return [mixed, *(present for outputs in taken for present in outputs[1:])]

    # All presents are outputs of the graph: what stays inside a branch is a temporary, and the next
    # step would not see what the one before wrote into it.
    outputs = [f"{name}.mixed", *presents, *step_outputs(layer)]
    _add_choice(g, STEPWISE, outputs, step, read)
    return outputs[0]


def _add_step(g: Nodes, config: GPT2Config, packed: str, layer: int, step: int) -> Sequence[str]:
    """Attend to one token, if there is one, after the step before: [1, 0 or 1, E], and the cache.

    That its place depends on the shape of what the step before has made keeps them in order.
    """
    name = f"h.{layer}.attn.step"
    outputs = [f"{name}.{step}", f"{name}.{step}.key", f"{name}.{step}.value"]

    def attend(branch: Nodes, outputs: Sequence[str]) -> Sequence[str]:
        bounds = [g.constant(f"step.{number}", [number]) for number in (step, step + 1, 1)]
        token = branch.add("Slice", [packed, *bounds], f"{name}.{step}.token")  # [1, 1, 3E]
        place = f"step.{step}.place"
        if step:
            one = branch.add("Shape", [f"{name}.{step - 1}"], f"{name}.{step}.one", start=0, end=1)
            one = branch.add("Cast", [one], f"{name}.{step}.one32", to=TensorProto.INT32)
            place = branch.add("Add", [f"step.{step}.before", one], f"{name}.{step}.place")
        _add_node(branch, config, layer, [token, place, f"step.{step}.length"], outputs)
        return outputs

    def skip(branch: Nodes) -> Sequence[str]:
        bounds = [g.constant(f"step.{number}", [number]) for number in (0, 0, 1)]
        none = branch.add("Slice", [f"{name}.0", *bounds], f"{name}.{step}.none")  # [1, 0, E]
        return [none, *_fill(branch, f"{name}.{step}.untaken", 2)]

    if step == 0:
        return attend(g, outputs)
    inner = [f"{output}.taken" for output in outputs]
    _add_choice(g, f"step.{step}.taken", outputs, lambda branch: attend(branch, inner), skip)
    return outputs


def _add_node(
    g: Nodes, config: GPT2Config, layer: int, inputs: Sequence[str], outputs: Sequence[str]
) -> str:
    """Add a GroupQueryAttention node: packed [B, S, 3E], last places [B], the longest length."""
    packed, places, length = inputs
    past = [f"past_key_values.{layer}.{part}" for part in _PARTS]
    g.add_split(
        "GroupQueryAttention",
        [packed, "", "", *past, places, length],
        outputs,
        domain=MICROSOFT,
        num_heads=config.n_head,
        kv_num_heads=config.n_head,  # groups of one
        scale=config.attention_scale(layer),
    )
    return outputs[0]


def _fill(g: Nodes, name: str, count: int) -> list[str]:
    """Return the names of `count` outputs that nobody reads: one number each."""
    nothing = g.constant("step.nothing", [[[[0.0]]]])
    return [g.add("Identity", [nothing], f"{name}.{number}") for number in range(count)]


def _add_choice(g: Nodes, condition: str, outputs: Sequence[str], then: Make, other: Make) -> None:
    """Add an If whose branches have their own names for the outputs."""
    branches = {}
    for kind, make in (("then", then), ("else", other)):
        branch = g.branch()
        values = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in make(branch)]
        branches[f"{kind}_branch"] = helper.make_graph(
            branch.nodes, f"{outputs[0]}.{kind}", [], values
        )
    g.add_split("If", [condition], outputs, **branches)


_PARTS: Final = ("key", "value")
