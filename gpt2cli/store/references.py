"""Remembers which commit a branch or tag meant when it was last downloaded."""

from urllib.parse import quote

from export.small_files import ReadError, read_object
from gpt2cli.store.places import cache_folder, keep_json


class Reference:
    """A branch or tag of a repository; a file for each."""

    def __init__(self, repo: str, revision: str) -> None:
        name = f"{quote(revision, safe='')}.json"
        self._path = cache_folder() / "refs" / repo.replace("/", "--") / name

    def read(self) -> str | None:
        """Return the commit; None if it is not known."""
        try:
            commit = read_object(self._path)["commit"]
        except (ReadError, LookupError):
            return None
        return commit if isinstance(commit, str) else None

    def write(self, commit: str) -> None:
        """Keep the commit, if it can be kept."""
        keep_json(self._path, {"commit": commit})
