"""What the server has done, in the text form of Prometheus."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gpt2cli.serve.service import Service

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_OTHER: Final = "other"  # all paths that there are not, of which clients can make any number


class Metrics:
    """Counts requests, and tells that and what the service has counted."""

    def __init__(self, paths: Iterable[str]) -> None:
        """`paths`: those that are told apart."""
        self._paths = frozenset(paths)
        self._requests: Counter[tuple[str, int]] = Counter()

    def count(self, path: str, status: int) -> None:
        """Count an answer."""
        self._requests[path if path in self._paths else _OTHER, status] += 1

    def show(self, service: Service | None) -> str:
        """Return all metrics; of the model only while there is one."""
        lines = [*self._show_requests(), *([] if service is None else _show_service(service))]
        return "".join(f"{line}\n" for line in lines)

    def _show_requests(self) -> Iterator[str]:
        samples = {
            f'{{path="{path}",status="{status}"}}': number
            for (path, status), number in sorted(self._requests.items())
        }
        yield from _format("requests_total", "counter", "Requests that were answered.", samples)


def _show_service(service: Service) -> Iterator[str]:
    runner = service.runner
    counts, tally = runner.counts, runner.tally
    for name, value, told in (
        ("prompt_tokens_total", tally.prompt_tokens, "Tokens of prompts."),
        ("completion_tokens_total", tally.completion_tokens, "Tokens that were made."),
        ("prefill_tokens_total", counts.prefill_tokens, "Tokens of prompts that were computed."),
        ("shared_tokens_total", counts.shared_tokens, "Tokens of prompts that were there already."),
        ("failures_total", tally.failures, "Failures of the model."),
    ):
        yield from _format(name, "counter", told, {"": value})
    seconds = {
        '{phase="prefill"}': counts.prefill_seconds,
        '{phase="decode"}': counts.decode_seconds,
        '{phase="sample"}': counts.sample_seconds,
        '{phase="score"}': tally.score_seconds,
    }
    yield from _format("seconds_total", "counter", "Time that the model took.", seconds)
    for name, value, told in (
        ("waiting_requests", runner.waiting, "Requests that wait for their turn."),
        ("slots_in_use", runner.running, "Completions that run."),
        ("slots", service.model.engine.max_slots, "Completions that may run at once."),
    ):
        yield from _format(name, "gauge", told, {"": value})


def _format(name: str, kind: str, told: str, samples: Mapping[str, float]) -> Iterator[str]:
    yield f"# HELP gpt2_{name} {told}"
    yield f"# TYPE gpt2_{name} {kind}"
    for labels, value in samples.items():
        yield f"gpt2_{name}{labels} {value}"
