"""Files and folders of a lake on an S3-compatible store, which has no folders: one is there if a file is below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, cast

from include.lake.files import FileInfo
from include.lake.log_store import LOG
from include.lake.s3.connection import client, transfers
from include.lake.s3.creating import created
from include.lake.s3.errors import answering
from include.lake.s3.object_file import opened, opened_lasting
from include.lake.s3.objects import Place, aborted, deleted, folders_in, listed
from include.lake.uri import LakeUri
from include.protocol.errors import StoreRefuses


class S3Files:
    """See `Files`."""

    def exists(self, uri: LakeUri) -> bool:
        place = Place.of(uri)
        if any(True for _ in listed(place, at_most=1)):
            return True
        try:
            place.head()
        except FileNotFoundError:
            return False
        return True

    def list(self, folder: LakeUri) -> Iterator[FileInfo]:
        place = Place.of(folder)
        for found in listed(place):
            if found.key.endswith("/"):
                continue  # S3A's mark of a folder that is empty
            yield FileInfo(found.key.removeprefix(place.below), found.size, found.changed.timestamp())

    def folders(self, folder: LakeUri) -> Sequence[str]:
        return folders_in(Place.of(folder))

    def open(self, file: LakeUri, lasting_size: int | None = None) -> BinaryIO:
        place = Place.of(file)
        if lasting_size is not None:
            return cast(BinaryIO, opened_lasting(place, lasting_size))
        return cast(BinaryIO, opened(place))

    def create(self, file: LakeUri, content: bytes) -> None:
        if not self.publish(file, content):
            raise FileExistsError(str(file))

    def publish(self, file: LakeUri, content: bytes) -> bool:
        return created(Place.of(file), content) is not None

    def write(self, file: LakeUri, content: BinaryIO) -> None:
        from boto3.exceptions import S3UploadFailedError

        place = Place.of(file)
        try:
            with answering(str(place)):
                client().upload_fileobj(content, place.bucket, place.key, Config=transfers())
        except S3UploadFailedError as error:
            raise OSError(str(error)) from error

    def link(self, file: LakeUri, to: LakeUri) -> None:
        old, new = Place.of(file), Place.of(to)
        with answering(str(old)):
            source = {"Bucket": old.bucket, "Key": old.key}
            client().copy(source, new.bucket, new.key, Config=transfers())

    def make_folder(self, folder: LakeUri) -> None:
        pass  # there are none

    def move(self, folder: LakeUri, to: LakeUri) -> None:
        """Copies, and then deletes: whoever stops it in between may call it again, and finds no log in the new place
        before all else is there."""
        old, new = Place.of(folder), Place.of(to)
        names = [found.key.removeprefix(old.below) for found in listed(old)]
        if not names:
            raise FileNotFoundError(str(old))
        if self.exists(to):
            raise FileExistsError(str(new))
        with answering(str(new)):
            for name in sorted(names, key=lambda name: name.startswith(f"{LOG}/")):
                source = {"Bucket": old.bucket, "Key": old.below + name}
                client().copy_object(Bucket=new.bucket, Key=new.below + name, CopySource=source)
        deleted(old.bucket, (old.below + name for name in names))

    def remove(self, file: LakeUri) -> None:
        place = Place.of(file)
        with answering(str(place)):
            client().delete_object(Bucket=place.bucket, Key=place.key)

    def delete(self, folder: LakeUri) -> None:
        place = Place.of(folder)
        if not deleted(place.bucket, (found.key for found in listed(place))):
            raise FileNotFoundError(str(place))

    def forget_unfinished(self, folder: LakeUri, older_than_hours: float) -> int:
        place, before = Place.of(folder), datetime.now(UTC) - timedelta(hours=older_than_hours)
        return aborted(place, before)

    def keeps_versions(self, folder: LakeUri) -> bool:
        try:
            with answering(str(folder)):
                answer = client().get_bucket_versioning(Bucket=Place.of(folder).bucket)
        except StoreRefuses:  # it has no versions, or the login may not ask
            return False
        return "Status" in answer

    def tables_around(self, folder: LakeUri) -> Iterator[LakeUri]:
        above = folder
        while above.parent != above:
            above = above.parent
            if any(True for _ in listed(Place.of(above / LOG), at_most=1)):
                yield above
        logs = {found.name.rpartition(f"{LOG}/")[0] for found in self.list(folder) if f"/{LOG}/" in f"/{found.name}"}
        yield from (folder / name.rstrip("/") for name in sorted(logs) if name)
