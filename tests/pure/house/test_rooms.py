"""The picture of the rooms shows the code as it is."""

from __future__ import annotations

from tests.pictures.rooms import PICTURE, House


def test_the_picture_of_the_rooms_is_up_to_date() -> None:
    assert PICTURE.read_text() == House.of().svg(), "the rooms or their arrows have changed: `make rooms`"
