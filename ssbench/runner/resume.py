"""Finds and deletes the orphaned objects of an aborted run, by its results and the listings.

Results of the run's last moments may be missing, so its containers are also searched for names with
its ID. The stat file may have been crafted to delete other objects. Therefore an object is deleted
only if three things agree: its exact name and container (core.naming), our mark on the container,
and the run's ID on the object, which a HEAD shows just before the DELETE. Listed names are not
kept.

Open uploads of objects in parts have no metadata to look at: name, container and mark must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec import Struct, field

from ssbench.core.errors import StorageError
from ssbench.core.naming import why_not_ours
from ssbench.core.text import plural, printable
from ssbench.runner.deletions import (
    CleanupResult,
    Deletions,
    KeptContainers,
    Work,
    open_uploads,
)
from ssbench.runner.listings import for_each, list_containers, list_objects, page_size
from ssbench.runner.orphans import OrphanedObjects
from ssbench.storage.base import UploadAdmin
from ssbench.storage.retrying_client import RetryingClient


class SearchResult(Struct):
    """The containers and objects of the run that were found."""

    #: The run's containers that exist -> number of the run's names that each lists.
    containers: dict[str, int] = {}
    unlisted: int = 0  #: objects in these that only the results name
    uploads: int = 0  #: open uploads of objects in parts in these
    #: Containers that are left alone, because they carry no mark.
    unmarked: KeptContainers = field(default_factory=KeptContainers)

    @property
    def listed(self) -> int:
        """Number of objects in listings."""
        return sum(self.containers.values())

    @property
    def objects(self) -> int:
        """Number of all objects."""
        return self.listed + self.unlisted

    @property
    def total(self) -> int:
        """Number of all objects and uploads."""
        return self.objects + self.uploads


def find(
    client: RetryingClient,
    orphans: OrphanedObjects,
    show: Callable[[str], None] = lambda text: None,
    *,
    use_existing: bool = False,
) -> SearchResult:
    """Search the run's containers, and note in ``orphans`` what they list. Ends early once the
    client is stopping.

    :param show: called with what is done, after each page.
    :param use_existing: also search containers without our mark.
    :raises SsbenchError: a container can't be listed.
    """
    limit = page_size(client.call(client.storage.limits))
    found = SearchResult()

    def search(container: str) -> None:
        try:
            marked = use_existing or client.call(client.storage.owns, container)
            reason = why_not_ours(container, orphans.base, orphans.policy, (), lambda: marked)
            if not marked or reason is not None or client.stopping():
                found.unmarked.add(container)
                return
            listed = 0
            for page in _listed(client, orphans, container, limit):
                listed += len(page)
                show(f"Listing {printable(container)}: {plural(listed, 'object')} of the run")
            uploads = open_uploads(client, container) if orphans.in_parts else ()
            found.uploads += sum(orphans.has_upload(container, each) for each in uploads)
            found.containers[container] = listed
        except StorageError as error:
            if error.status != 404:  # 404: it does not exist, or no longer
                raise

    for_each(client, search, _containers_there(client, orphans, limit))
    show("")
    found.unlisted = sum(1 for _ in _unlisted(orphans, found))
    return found


def abort_uploads(client: RetryingClient, orphans: OrphanedObjects) -> CleanupResult:
    """Abort the run's open uploads of objects in parts, in all its containers. Ends, and fails, as
    ``cleanup.delete`` does; a store without such uploads is not asked."""
    deletions = Deletions(client, lambda: None)

    def clean(container: str) -> None:
        deletions.abort_uploads(container, partial(orphans.has_upload, container))

    if isinstance(client.storage, UploadAdmin):
        deletions.run([*orphans.container_names()], clean)
    return deletions.result


def _containers_there(
    client: RetryingClient,
    orphans: OrphanedObjects,
    limit: int,
) -> Iterable[str]:
    """Names of the run's containers that the account lists; all of them if the user may not list
    the account."""
    try:
        return [
            entry.name
            for page in list_containers(client, orphans.base, limit)
            for entry in page
            if orphans.is_container(entry.name)
        ]
    except StorageError as error:
        if error.status != 403:
            raise
        return orphans.container_names()


def _listed(
    client: RetryingClient,
    orphans: OrphanedObjects,
    container: str,
    limit: int,
) -> Iterator[list[str]]:
    """Pages of the run's names in a container."""
    classes: dict[str, list[int]] = {}  # by the prefix of their objects' names
    for size_class in range(orphans.classes):
        classes.setdefault(orphans.naming.created_prefix(size_class), []).append(size_class)
    for prefix, those in classes.items():
        for page in list_objects(client, container, limit, prefix):
            names = [entry.name for entry in page]
            yield [n for n in names if any(orphans.listed(each, container, n) for each in those)]


def _unlisted(orphans: OrphanedObjects, found: SearchResult) -> Iterator[Work]:
    """Container and name of objects that only the results name, in containers that exist."""
    for size_class, number in orphans.unlisted():
        container = orphans.container(size_class, number)
        if container in found.containers:
            yield container, [orphans.naming.object(size_class, number)]


def delete(
    client: RetryingClient,
    orphans: OrphanedObjects,
    found: SearchResult,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    dry_run: bool = False,
) -> CleanupResult:
    """Delete the objects that were found, each after a HEAD showed that it is the run's. Ends, and
    fails, as ``cleanup.delete`` does.

    :param progress: called with the number of processed objects, and of all.
    :param dry_run: delete nothing; ``objects`` counts those that would be deleted.
    """

    def on_done() -> None:
        result = deletions.result
        done = result.objects + result.absent + result.foreign + result.uploads
        progress(done, max(done, found.total))

    deletions = Deletions(client, on_done, run_id=orphans.run_id, dry_run=dry_run)
    result = deletions.result

    def clean(container: str) -> None:
        for names in _listed(client, orphans, container, deletions.page):
            deletions.delete_all((container, [name]) for name in names)
            deletions.raise_if_stopping()
        if orphans.in_parts:
            deletions.abort_uploads(container, partial(orphans.has_upload, container))

    deletions.run([*found.containers], clean, lambda: _unlisted(orphans, found))
    if result.ended_early:
        done = result.objects + result.absent + result.foreign + result.failed_objects
        result.left = max(found.total - done - result.uploads, 0)
    return result
