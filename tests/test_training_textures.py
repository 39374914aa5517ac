"""Photographs and cut-outs from folders: what is taken for which, and what becomes of it."""

import cv2
import numpy as np
import pytest

from pwcflow.errors import ImageError
from pwcflow.training.textures import check_folders, load_textures


def test_textures_come_from_folders_cropped_squared_and_premultiplied(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "sprites").mkdir()
    photo = np.zeros((20, 100, 3), np.uint8)
    photo[:, 50:] = (0, 0, 200)  # OpenCV: the right half is red
    cv2.imwrite(str(tmp_path / "photos" / "a.png"), photo)
    sprite = np.full((10, 30, 4), 200, np.uint8)
    sprite[..., 3] = 51
    cv2.imwrite(str(tmp_path / "sprites" / "b.png"), sprite)
    cv2.imwrite(str(tmp_path / "sprites" / "no_alpha.png"), photo)
    found = load_textures(
        [tmp_path / "photos"], [tmp_path / "sprites"], photo_size=(20, 40), sprite_size=34
    )
    assert found.photos.shape == (1, 20, 40, 4)
    assert found.photos[0, 10, 5].tolist() == [0, 0, 0, 255]
    assert found.photos[0, 10, 35].tolist() == [200, 0, 0, 255]
    assert found.sprites.shape == (1, 34, 34, 4)
    assert found.sprites[0, 17, 17].tolist() == [40, 40, 40, 51]  # 200 x 51 / 255
    assert found.sprites[0, 2, 17].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("shape", [(1, 40000, 3), (40000, 1, 3)], ids=str)
def test_a_strip_of_one_pixel_is_cropped_before_it_is_enlarged(tmp_path, shape):
    cv2.imwrite(str(tmp_path / "strip.png"), np.full(shape, 7, np.uint8))
    photos = load_textures([tmp_path], [], photo_size=(480, 640)).photos
    assert photos.shape == (1, 480, 640, 4)
    assert bool((photos[..., :3] == 7).all())


def test_photographs_of_any_depth_become_8_bits(tmp_path):
    for name, pixels in (
        ("1.png", np.full((6, 8, 3), 51, np.uint8)),
        ("2.png", np.full((6, 8, 3), 51 * 257, np.uint16)),
        ("3.tif", np.full((6, 8, 3), 0.2, np.float32)),
    ):
        cv2.imwrite(str(tmp_path / name), pixels)
    photos = load_textures([tmp_path], [], photo_size=(6, 8)).photos
    assert photos.shape == (3, 6, 8, 4)
    assert (photos[..., :3] == 51).all()
    assert (photos[..., 3] == 255).all()


def test_cut_outs_among_photographs_are_only_cut_outs(tmp_path):
    hole = np.full((40, 60, 4), 200, np.uint8)
    hole[..., 3] = 255
    hole[:2, :, 3] = 0  # 2 of 40 rows: not more than a twentieth
    cv2.imwrite(str(tmp_path / "frame.png"), hole)
    hole[2, :, 3] = 0
    cv2.imwrite(str(tmp_path / "cut.png"), hole)
    cv2.imwrite(str(tmp_path / "deep.png"), hole.astype(np.uint16) * 257)
    cv2.imwrite(str(tmp_path / "photo.jpg"), np.full((40, 60, 3), 90, np.uint8))
    textures = load_textures([tmp_path], [tmp_path], photo_size=(40, 60), sprite_size=64)
    # By name: frame.png, photo.jpg; those with some 8 bits of alpha below 255 are cut-outs.
    assert textures.photos[:, 20, 30, 0].tolist() == [200, 90]
    assert len(textures.sprites) == 2
    for name in ("frame.png", "photo.jpg"):
        (tmp_path / name).unlink()
    for refuse in (
        lambda: load_textures([tmp_path], []),
        lambda: check_folders([tmp_path], [], []),
    ):
        with pytest.raises(ImageError, match=r"no photograph in .*, only cut-outs"):
            refuse()
    (tmp_path / "photos").mkdir()
    cv2.imwrite(str(tmp_path / "photos" / "a.png"), np.zeros((6, 8, 3), np.uint8))
    with pytest.raises(ImageError, match=r"no photograph in .*, only cut-outs"):
        check_folders([tmp_path / "photos"], [], [tmp_path])
    check_folders([tmp_path / "photos"], [tmp_path], [tmp_path / "photos"])
    check_folders([], [tmp_path], [tmp_path])  # no photographs are wanted
    with pytest.raises(ImageError, match=r"no cut-out in .*; add some, or train on photographs"):
        check_folders([], [tmp_path], [tmp_path / "photos"])


def test_a_webp_with_alpha_is_a_cut_out_as_a_png_is(tmp_path):
    cut_out = np.full((30, 30, 4), (30, 60, 90, 255), np.uint8)  # OpenCV: blue, green, red
    cut_out[:2, :, 3] = 0
    lossless = [cv2.IMWRITE_WEBP_QUALITY, 101]
    cv2.imwrite(str(tmp_path / "a.webp"), cut_out, lossless)
    cv2.imwrite(str(tmp_path / "b.webp"), np.full((6, 8, 3), 70, np.uint8), lossless)
    found = load_textures([tmp_path], [tmp_path], photo_size=(6, 8), sprite_size=34)
    assert len(found.photos) == 1
    assert found.photos[0, 3, 4].tolist() == [70, 70, 70, 255]
    assert found.sprites.shape == (1, 34, 34, 4)
    assert found.sprites[0, 17, 17].tolist() == [90, 60, 30, 255]
    assert not found.sprites[0, 3].any()


def test_hidden_files_folders_and_what_is_transparent_all_over_are_passed_over(tmp_path):
    image = np.full((6, 8, 4), 255, np.uint8)
    image[0, 0, 3] = 254
    cv2.imwrite(str(tmp_path / "a.png"), image)
    cv2.imwrite(str(tmp_path / "clear.png"), np.zeros((6, 8, 4), np.uint8))
    (tmp_path / "._a.png").write_bytes(b"of another system")
    (tmp_path / "b.png").mkdir()
    textures = load_textures([tmp_path], [tmp_path], photo_size=(6, 8))
    assert (len(textures.photos), len(textures.sprites)) == (1, 1)


def test_what_is_opaque_all_over_is_a_photograph_and_no_cut_out(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.full((6, 8, 4), 255, np.uint8))
    textures = load_textures([tmp_path], [tmp_path], photo_size=(6, 8))
    assert (len(textures.photos), len(textures.sprites)) == (1, 0)
    with pytest.raises(ImageError, match=r"alpha channel of 8 bits that is not transparent or opa"):
        check_folders([], [tmp_path], [])


def test_a_folder_without_an_image_is_refused(tmp_path):
    (tmp_path / "2020").mkdir()
    cv2.imwrite(str(tmp_path / "2020" / "a.png"), np.zeros((6, 8, 3), np.uint8))
    (tmp_path / "notes.txt").touch()
    for folders in (([tmp_path], []), ([], [tmp_path])):
        with pytest.raises(ImageError, match=r"no image in .*; folders in it are not searched"):
            load_textures(*folders)


def test_damaged_cut_outs_are_refused_as_photographs_are(tmp_path):
    file = tmp_path / "a.png"
    cv2.imwrite(str(file), np.random.default_rng(0).integers(0, 255, (90, 90, 4), np.uint8))
    whole = file.read_bytes()
    for data in (b"", whole[: len(whole) // 3]):
        file.write_bytes(data)
        for folders in (([tmp_path], []), ([], [tmp_path])):
            with pytest.raises(ImageError, match=r"a\.png"):
                load_textures(*folders)
