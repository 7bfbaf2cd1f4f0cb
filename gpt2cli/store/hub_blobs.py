"""Downloads large files into the hub's cache so that one that was interrupted goes on later.

huggingface_hub 2.4.0 begins such a file anew. But what lies in its cache under a file's hash it
takes for the file, so that is where a whole one is laid. Until then it has the name that earlier
versions gave it, which went on with it too.
"""

from pathlib import Path

from export.whole import give_name
from gpt2cli.store.hub_files import HubFile


def download_blob(
    repo: str, commit: str, file: HubFile, *, endpoint: str | None, cache: Path | None
) -> None:
    """Lay a file into the hub's cache if it is not there; nothing, if its hash is not known.

    Processes that ask at the same moment wait for one of them.

    Raises:
        Exception: what huggingface_hub and its HTTP library raise.
    """
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    there = try_to_load_from_cache(repo, file.name, cache_dir=cache, revision=commit)
    if file.sha256 is None or isinstance(there, str):
        return
    root = Path(cache or constants.HF_HUB_CACHE)
    name = repo_folder_name(repo_id=repo, repo_type="model")
    blob, locks = root / name / "blobs" / file.sha256, root / ".locks" / name
    for folder in (blob.parent, locks):
        folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(locks / f"{file.sha256}.lock"):
        if not blob.exists():
            part = blob.with_name(f"{blob.name}.incomplete")
            _go_on(part, repo, commit, file, endpoint)
            give_name(part, blob)


def drop_copied_blob(path: Path, file: HubFile) -> None:
    """Remove the blob of a file in a snapshot that is a copy of it, where links cannot be made."""
    if file.sha256 is not None and not path.is_symlink():
        (path.parents[2] / "blobs" / file.sha256).unlink(missing_ok=True)


def _go_on(part: Path, repo: str, commit: str, file: HubFile, endpoint: str | None) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    with part.open("ab") as stream:
        if file.size is not None and stream.tell() > file.size:
            stream.truncate(0)
            stream.seek(0)
        http_get(
            hf_hub_url(repo, file.name, revision=commit, endpoint=endpoint),
            stream,
            resume_size=stream.tell(),
            headers=build_hf_headers(),
            expected_size=file.size,
            displayed_filename=file.name,
        )
