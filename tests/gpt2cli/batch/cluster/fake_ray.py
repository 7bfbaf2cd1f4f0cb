"""The few calls of Ray that the program makes, in this process: what is asked is done at once."""

import pickle
import types
from collections.abc import Callable, Sequence
from typing import Any


class RayError(Exception):
    """As Ray's."""


class RayActorError(RayError):
    """As Ray's."""


class Ref:
    """What was asked, and what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        try:
            # All that is sent can be pickled.
            self.value, self.error = pickle.loads(pickle.dumps(work())), None
        except RayError as error:
            self.value, self.error = None, error


class Method:
    def __init__(self, actor: "Actor", name: str) -> None:
        self._actor = actor
        self._name = name

    def options(self, **options: int) -> "Method":
        return self

    def remote(self, *arguments: Any) -> Ref:
        return Ref(lambda: self._actor.call(self._name, *pickle.loads(pickle.dumps(arguments))))


class Actor:
    """One worker, which dies before its calls of `deaths`, counted from 0."""

    def __init__(self, make: Callable[[], Any], deaths: Sequence[int]) -> None:
        self._make = make
        self._instance = make()
        self._calls = 0
        self._deaths = deaths

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)

    def call(self, name: str, *arguments: Any) -> Any:
        self._calls += 1
        if self._calls - 1 in self._deaths:
            self._instance = self._make()
            raise RayActorError("The actor died.")
        return getattr(self._instance, name)(*arguments)

    def begin_anew(self) -> None:
        self._instance = self._make()


class FakeRay(types.ModuleType):
    """In place of the module `ray`: a cluster of machines with a core each."""

    def __init__(self, machines: int = 2, deaths: Sequence[int] = ()) -> None:
        super().__init__("ray")
        self.exceptions = types.SimpleNamespace(RayError=RayError, RayActorError=RayActorError)
        self._private: Any = None
        self.machines = machines
        self.actors: list[Actor] = []
        self.joined: list[dict[str, Any]] = []
        self.failure: Exception | None = None  # of joining
        self._deaths = deaths

    def init(self, address: str, **told: Any) -> None:
        if self.failure is not None:
            raise self.failure
        self.joined.append({"address": address, **told})
        print("what Ray prints is no result")

    def shutdown(self) -> None:
        self.joined.pop()

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 1.0}}] * self.machines

    def remote(self, **options: Any) -> Callable[[type], Any]:
        def declare(kind: type) -> Any:
            def make(*arguments: Any) -> Actor:
                deaths = self._deaths if not self.actors else ()
                self.actors.append(Actor(lambda: kind(*arguments), deaths))
                return self.actors[-1]

            return types.SimpleNamespace(remote=make)

        return declare

    def wait(
        self, refs: Sequence[Ref], *, num_returns: int, timeout: float
    ) -> tuple[list[Ref], list[Ref]]:
        return list(refs[:num_returns]), list(refs[num_returns:])

    def get(self, ref: Ref) -> Any:
        if ref.error is not None:
            raise ref.error
        return ref.value

    def kill(self, actor: Actor, *, no_restart: bool = True) -> None:
        if not no_restart:
            actor.begin_anew()
