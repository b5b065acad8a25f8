"""A table on disk behaves as a sorted dictionary."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.data.corpora.disk_table import DiskTable


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=4), st.text(max_size=4))))
def test_same_as_a_dictionary_that_keeps_the_first_of_equal_keys(entries):
    expected: dict[str, str] = {}
    with DiskTable("value") as table:
        for key, value in entries:
            assert table.add(key, value) == (key not in expected)
            expected.setdefault(key, value)
        assert list(table) == sorted(expected.items())
        assert len(table) == len(expected)
        assert all(table.get(key) == (value,) for key, value in expected.items())
        assert table.get("not there") is None


def test_nothing_is_left_on_disk():
    with DiskTable("value") as table:
        folder = table._folder.name
        table.add("a", "b")
    assert not os.path.exists(folder)
