import pytest

from spark_eos.config.durations import parse_duration_ms
from spark_eos.config.values import NotAllowedError


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("P1D", 86_400_000),
        ("PT1H", 3_600_000),
        ("PT1M", 60_000),
        ("PT1S", 1000),
        ("P3DT20H30M", ((3 * 24 + 20) * 60 + 30) * 60_000),
        ("P1DT2H3M4.005S", (((24 + 2) * 60 + 3) * 60 + 4) * 1000 + 5),
        ("PT0.5S", 500),
        ("PT0,25S", 250),
        ("PT1.0009S", 1000),
        ("PT0.123456789S", 123),
        ("PT0S", 0),
        ("PT90M", 5_400_000),
        ("pt36h", 129_600_000),
        (" P7D ", 604_800_000),
        ("P0DT5S", 5000),
    ],
)
def test_iso_durations_in_milliseconds(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "7D",
        "P1W",
        "P1Y",
        "P1M",
        "PT1.5H",
        "PT1H1H",
        "PT1S1M",
        "P1H",
        "PT.5S",
        "PT5",
        "1000",
    ],
)
def test_what_is_no_duration_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(NotAllowedError, match=r"is not a duration.*PnDTnHnMnS"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["-P1D", "P-1D", "PT-1S", "PT1H-5M"])
def test_a_negative_duration_is_refused(text: str) -> None:
    with pytest.raises(NotAllowedError, match="cannot be negative"):
        parse_duration_ms(text)


def test_a_duration_that_is_too_long_is_refused() -> None:
    with pytest.raises(NotAllowedError, match="not a duration that fits"):
        parse_duration_ms(f"P{10**12}D")


def test_digits_of_other_scripts_are_refused() -> None:
    with pytest.raises(NotAllowedError):
        parse_duration_ms("P\N{ARABIC-INDIC DIGIT ONE}D")
