"""Claims about carrying wheels to a machine without a network, for `tests.bench.cuda`."""

import pathlib

import pytest

from tests.bench.cuda_wheels import cut_wheel, install_wheels, join_wheels


@pytest.mark.parametrize(("size", "parts"), [(0, 1), (1, 1), (10, 1), (11, 2), (35, 4)])
def test_a_cut_wheel_is_joined_again(tmp_path: pathlib.Path, size: int, parts: int) -> None:
    """Whatever the last part's size."""
    wheel = tmp_path / "x-1-py3-none-any.whl"
    wheel.write_bytes(bytes(range(size)))
    assert len(cut_wheel(wheel, 10)) == parts
    out = tmp_path / "out"
    out.mkdir()
    assert join_wheels(tmp_path, out) == []
    assert (out / wheel.name).read_bytes() == wheel.read_bytes()


def test_ten_parts_are_joined_in_the_order_of_their_numbers(tmp_path: pathlib.Path) -> None:
    """10 comes after 9, not after 1."""
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(bytes(range(12)))
    cut_wheel(wheel, 1)
    wheel.unlink()
    out = tmp_path / "out"
    out.mkdir()
    join_wheels(tmp_path, out)
    assert (out / "x.whl").read_bytes() == bytes(range(12))


def test_a_missing_part_is_told(tmp_path: pathlib.Path) -> None:
    """Nothing is installed of what is there."""
    wheel = tmp_path / "x.whl"
    wheel.write_bytes(bytes(30))
    cut_wheel(wheel, 10)[1].unlink()
    wheel.unlink()
    with pytest.raises(SystemExit, match=r"x\.whl: 2 of 3 parts"):
        install_wheels(tmp_path, tmp_path / "site")


def test_where_nothing_lies_nothing_is_installed(tmp_path: pathlib.Path) -> None:
    """The machine has all that is needed."""
    (tmp_path / "wheels").mkdir()
    assert install_wheels(tmp_path / "wheels", tmp_path / "site") == []
