"""Text as Whisper writes it."""

import pytest

from fewer.data.style import Look, PlainStyle, WhisperStyle, learn_casing

PLAIN, WRITTEN = Look(cased=False, punctuated=False), Look(cased=True, punctuated=True)
NEVER = ['"', "(", ")", "[", "]", "*", "_", ":", ";", "--", "---", "/", "@", " -", " '", ' "']  # as tiny.en


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("HELLO WORLD", "Hello world."),
        ("and then I said I'll go", "And then I said I'll go."),
        ("and then i said i'll go", "And then I said I'll go."),
        ("ON MONDAY MISTER BROWN CAME", "On Monday Mr. Brown came."),
        ("what did you say", "What did you say?"),
        ("what a day it was", "What a day it was."),
        ("it cost 12 dollars in 1999", "It cost 12 dollars in 1999."),
        ("yes. no! do you? it is", "Yes. No! Do you? It is."),
        ("we met mr. smith", "We met Mr. Smith."),
        ("stop, please", "Stop, please."),
        ("what is it?", "What is it?"),
        ("", ""),
        ("* * *", ""),
    ],
)
def test_text_of_one_case_gets_capitals_and_marks(line: str, expected: str) -> None:
    assert WhisperStyle(PLAIN, NEVER)(line) == expected


def test_names_are_cased_as_in_cased_text() -> None:
    casing = learn_casing(
        ["Yes, Anna Quilter saw NATO in May.", "May I? The cat saw Anna's brown iPhone.", "ALL CAPITALS SAY NOTHING"]
    )
    assert casing == {"anna": "Anna", "quilter": "Quilter", "nato": "NATO", "may": "May", "iphone": "iPhone"}
    style = WhisperStyle(PLAIN, NEVER, casing)
    assert style("ANNA QUILTER'S CAT AND NATO'S IPHONE") == "Anna Quilter's cat and NATO's iPhone."


def test_the_majority_decides() -> None:
    assert learn_casing(["A Bill", "The bill", "One bill"]) == {}
    assert learn_casing(["A Bill", "The bill", "One Bill"]) == {"bill": "Bill"}


@pytest.mark.parametrize(
    "line", ["It is well-known, isn't it?", "Mr. Brown paid $3.50.", "a lower line of verse", "Yes... The boys' café"]
)
def test_written_text_stays_as_it_is(line: str) -> None:
    assert WhisperStyle(WRITTEN, NEVER)(line) == line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('He said, "I will -- perhaps -- go."', "He said, I will, perhaps, go."),
        ("“Yes,” he said; “it’s mine!”", "Yes, he said, it's mine!"),
        ("It was—so they say—late", "It was, so they say, late"),
        ("He came [Illustration: a man] home (at last).", "He came home at last."),
        ("'Tis true,' said the man. 'Come!'", "Tis true, said the man. Come!"),
        ("At 10:30, as follows:", "At 10.30, as follows."),
        ("_Very_ good and/or *bad* - yes", "Very good and or bad yes"),
        ("CHAPTER THE FIRST", "Chapter the first."),
    ],
)
def test_what_is_never_written_goes(line: str, expected: str) -> None:
    assert WhisperStyle(WRITTEN, NEVER)(line) == expected


def test_only_what_the_model_never_writes_goes() -> None:
    assert WhisperStyle(WRITTEN)('He said: "Yes"; no.') == 'He said: "Yes"; no.'
    assert WhisperStyle(WRITTEN, [";", ","])("Yes; no, so.") == "Yes no so."  # a comma is no way out here


def test_cased_text_without_marks_gets_a_point() -> None:
    assert WhisperStyle(Look(cased=True, punctuated=False), NEVER)("Anna saw May") == "Anna saw May."


def test_other_languages_have_no_english_rules() -> None:
    style = WhisperStyle(PLAIN, NEVER, {"haus": "Haus"}, english=False)
    assert style("i mister und das haus") == "I mister und das Haus."
    assert style("你好 世界") == "你好 世界"


def test_the_look_of_a_text_is_seen() -> None:
    assert Look.of(["ONE TWO THREE", "FOUR FIVE SIX"]) == PLAIN
    assert Look.of(["One two three.", "Four five six!", "CHAPTER"]) == WRITTEN
    assert Look.of(["one two three.", "four five six."]) == Look(cased=False, punctuated=True)


def test_a_small_vocabulary_gets_its_own_case_and_signs() -> None:
    capitals = PlainStyle(["</s>", "▁A", "B", "CAT'", "▁"])
    assert capitals("A cat, a bat’s tab") == "A CAT A BAT' TAB"
    assert PlainStyle(["</s>", "a", "b"])("A'B!") == "ab"
    assert PlainStyle(["</s>", "<unk>", "A", "bee"], words=True)("A bee!") == "A bee!"
