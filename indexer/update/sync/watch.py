"""Follows a folder of photos: looks at it again and again, and brings the index up to date.

Looking at sizes and times needs no notification from the kernel, of which network disks have none
and large folders too many; it takes some ten microseconds a photo.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from indexer.update.sync.job import PhotoSync, SyncReport
from indexer.update.sync.scan import Scan
from indexer.update.sync.seen import Seen
from sparta.errors import InputError
from sparta.features.extract.photos import Stamp
from sparta.features.record import Skipped
from sparta.progress import Notice, Progress, no_progress

SHARE = 0.1  # of the time in which the folder may be looked at


def watch(
    photos: PhotoSync,
    every: float,
    done: Callable[[SyncReport], None],
    notice: Notice,
    progress: Progress = no_progress,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Bring an index up to date whenever photos change, until interrupted.

    A photo counts once it has been the same twice, so that none is read while it is being copied.
    What prevents a run, such as a disk that is not mounted or another writer, is shown once, and
    tried again.

    Args:
        photos: the index and the folder.
        every: seconds from one look to the next; more if looking takes long.
        done: gets the report of every run that found something, or other bad photos than before.
        notice: gets one line for every problem.
        progress: as for `PhotoSync.run`.
        pause: waits for some seconds.
    """
    before = photos.scan()
    problem = ""
    known: set[Skipped] | None = None
    while True:
        start = time.perf_counter()
        now = photos.scan()
        rest = max(every, (time.perf_counter() - start) / SHARE)
        try:
            settled = stable(now, before, photos.seen(now))
            report = photos.run(scan=settled, progress=progress)
        except (InputError, OSError) as error:
            if str(error) != problem:
                notice(str(error))
            problem = str(error)
        else:
            problem, skipped = "", set(report.skipped)
            # What cannot be read is tried each time, and said once.
            news = skipped != known and (report.plan or known is not None)
            if report.did or report.plan.touched or news:
                done(report)
            known = skipped
        before = now
        pause(rest)


def stable(now: Scan, before: Scan, seen: Mapping[str, Seen]) -> Scan:
    """A scan in which photos that are changing are as they were seen.

    Args:
        now: the photos.
        before: the photos some seconds earlier.
        seen: what the index is up to date with.
    """
    photos: dict[str, Stamp] = {}
    changing = {one for one, stamp in now.photos.items() if stamp != before.photos.get(one)}
    # One of these may be a photo that has vanished from another place.
    arriving = not changing <= seen.keys()
    for image_id in sorted({*now.photos, *before.photos, *seen}):
        stamp = now.photos.get(image_id)
        vanished = image_id not in now.photos
        if image_id in changing or (vanished and (arriving or image_id in before.photos)):
            stamp = seen[image_id].stamp if image_id in seen else None
        if stamp is not None and image_id not in now.problems:
            photos[image_id] = stamp
    return Scan(photos, now.closed, now.problems)
