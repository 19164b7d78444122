"""Names and values are checked in one place, and the errors have one form."""

from __future__ import annotations

import pytest

from spark_eos.config.compression import Compression
from spark_eos.config.isolation import Isolation
from spark_eos.config.nearest import nearest, suggestion
from spark_eos.config.option import Option, Table
from spark_eos.config.reader import OptionReader, check_names, check_stored, expected_error
from spark_eos.config.values import Boolean, Choice, Fixed, Integer, Member, Ratio, Text, Words
from spark_eos.errors import ConfigError

TABLE = Table(
    "test setting",
    Option("on", Boolean(), True, "."),
    Option("number", Integer(1, 9), 5, "."),
    Option("from.zero", Integer(0), None, "."),
    Option("share", Ratio(), 0.5, "."),
    Option("word", Choice("a", "b", "c"), "a", "."),
    Option("any.word", Choice("a", "b", any_case=True), "a", "."),
    Option("words", Words("one or both of a and b", "a", "b"), ("a",), "."),
    Option("level", Member(Isolation), Isolation.READ_COMMITTED, "."),
    Option("fixed", Fixed(1, ("1",), "there is one"), 1, "."),
    Option("name", Text(), None, "."),
    Option("place", Text(is_verbatim=True), None, "."),
    Option("list", Text(may_be_empty=True), "", "."),
    Option("secret", Integer(0), None, ".", is_secret=True),
)
STORED = Table("stored setting", Option("number", Integer(-1), -1, "."), stored=True)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("on", " False ", False),
        ("on", False, False),
        ("number", 9, 9),
        ("number", " 1 ", 1),
        ("from.zero", "9223372036854775807", 2**63 - 1),
        ("share", "1e-1", 0.1),
        ("share", "1", 1.0),
        ("share", 0, 0.0),
        ("any.word", "B", "b"),
        ("words", "b,a", ("a", "b")),
        ("level", "read_uncommitted", Isolation.READ_UNCOMMITTED),
        ("fixed", "1", 1),
        ("name", " me ", "me"),
        ("place", "/a ", "/a "),
        ("list", "", ""),
    ],
)
def test_values(name, given, value):
    read = OptionReader(TABLE, {name: given})
    assert read[name] == value
    assert type(read[name]) is type(value)
    assert name in read


def test_defaults():
    read = OptionReader(TABLE, {})
    assert read["number"] == 5
    assert "number" not in read
    assert list(read.values) == list(TABLE)
    assert TABLE.defaults()["on"] == "true"
    assert TABLE.defaults()["from.zero"] == ""


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("on", "yes", "true or false"),
        ("number", 0, "a whole number from 1 to 9"),
        ("number", "1_0", "a whole number from 1 to 9"),
        ("number", "\N{ARABIC-INDIC DIGIT ONE}", "a whole number from 1 to 9"),
        ("number", True, "a whole number from 1 to 9"),
        ("number", "1" * 10_000, "a whole number from 1 to 9"),
        ("from.zero", "-1", "a whole number from 0 up"),
        ("from.zero", 2**63, "a whole number from 0 up (at most 9223372036854775807)"),
        ("share", "nan", "a number from 0 to 1"),
        ("share", 1.01, "a number from 0 to 1"),
        ("words", "b,a,b", "one or both of a and b"),
        ("share", "much", "a number from 0 to 1"),
        ("word", "A", "a, b or c"),
        ("any.word", "C", "a or b"),
        ("level", "READ_COMMITTED", "read_committed or read_uncommitted"),
        ("fixed", "2", "1, as there is one"),
        ("name", 5, "text"),
    ],
)
def test_an_error_names_option_value_and_what_is_allowed(name, given, wanted):
    with pytest.raises(ConfigError) as caught:
        OptionReader(TABLE, {name: given})
    assert str(caught.value) == f"test setting {name}={given!r}: expected {wanted}"


@pytest.mark.parametrize("given", ["hush", 2**63])
def test_a_secret_is_not_shown(given):
    """Nor by what there is to say about its value."""
    with pytest.raises(ConfigError, match=r"^test setting secret=\*\*\*: expected a whole number from 0 up$"):
        OptionReader(TABLE, {"secret": given})


@pytest.mark.parametrize("name", ["on", "number", "name", "place"])
def test_an_empty_value(name):
    with pytest.raises(ConfigError, match=f"^test setting {name} is empty; give it a value or leave it out$"):
        OptionReader(TABLE, {name: " "})


def test_an_unknown_name():
    with pytest.raises(ConfigError, match=r"^unknown test setting 'Nubmer'; did you mean number\?$"):
        OptionReader(TABLE, {"Nubmer": 1})
    with pytest.raises(ConfigError, match=r"^unknown test setting 'x'; known are on, number, from\.zero"):
        check_names(TABLE, ["on", "x"])


def test_what_is_stored_is_the_text_that_was_given_without_the_space_around_it():
    assert check_stored(STORED, {"number": 7}) == {"number": "7"}
    assert check_stored(STORED, {"number": "007"}) == {"number": "007"}
    assert check_stored(STORED, {"number": " 7\n"}) == {"number": "7"}
    for given in (
        "+7",
        "--7",
        "-2",
        "7 0",
        "7_0",
        "1e3",
        "7.0",
        "\N{ARABIC-INDIC DIGIT SEVEN}",
        "9" * 20,
        "9" * 5000,
    ):
        with pytest.raises(ConfigError, match="a whole number from -1 up"):
            check_stored(STORED, {"number": given})


@pytest.mark.parametrize("given", ["9" * 19, "9" * 20, "9" * 5000])
def test_a_number_that_is_too_large_says_what_is_the_most(given):
    with pytest.raises(ConfigError, match=r"from -1 up \(at most 9223372036854775807\)"):
        check_stored(STORED, {"number": given})
    with pytest.raises(ConfigError, match=r"from 1 to 9$"):
        OptionReader(TABLE, {"number": given})


def test_a_value_that_its_type_allows():
    assert str(expected_error(TABLE, "name", "x", "y")) == "test setting name='x': expected y"


def test_the_nearest_name():
    assert nearest("SUBSCRIBEE", ["subscribe"]) == "subscribe"
    assert nearest("topik", ["path"], ["topic"]) == "topic"
    assert nearest("zzz", ["path"]) is None
    assert suggestion("zzz", ["path", "topic"]) == "known are path, topic"


def test_a_compression_is_a_value():
    assert Compression.of("zstd") == ("zstd", 1, False)
    assert Compression.of("auto") == ("zstd", 1, True)
    given = {"compression.lz4.level": "9", "compression.zstd.level": 2}
    assert Compression.chosen("lz4", given) == ("lz4", 9, False)
    assert Compression.chosen("auto", given) == ("zstd", 2, True)
    assert Compression.chosen("none", {"compression.lz4.level": 9}) is None


def test_the_levels_of_a_compression():
    for codec, lowest, highest in (("lz4", 1, 17), ("zstd", -131_072, 22)):
        assert [Compression.of(codec, level).level for level in (lowest, highest)] == [lowest, highest]
        for level in (lowest - 1, highest + 1):
            with pytest.raises(ConfigError, match=f"its levels are {lowest} to {highest}"):
                Compression.of(codec, level)
