"""Lists of known names in messages."""

from runner.language.suggestions import did_you_mean


def test_a_list_of_known_names_has_a_bounded_length() -> None:
    names = [f"{number:02}{'n' * 40_000}" for number in range(60)]
    said = did_you_mean("q", names)
    assert len(said) < 52 * 102
    assert said.startswith("known are 00nnn")
    assert said.endswith("n… and 10 more")


def test_few_short_names_are_listed_whole() -> None:
    assert did_you_mean("q", ["alpha", "beta", "alpha"]) == "known are alpha, beta"
