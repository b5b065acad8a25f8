import itertools
from collections import Counter

import numpy as np
import pytest

from fewer.data.synthesis.grammar import Grammar
from fewer.errors import FewerError


def draw(text, count, seed=0):
    grammar = Grammar(("test.txt", text))
    return list(itertools.islice(grammar.sentences(np.random.default_rng(seed)), count))


def test_rules_groups_optionals_and_empty_alternatives_derive_just_their_sentences():
    text = """
    <sentence> = bring [some] <fruit> (now | at once | ) ;   # a comment with | and ;
    <fruit>    = apples | pears ;
    """
    expected = {
        " ".join(part for part in parts if part)
        for parts in itertools.product(["bring"], ["", "some"], ["apples", "pears"], ["now", "at once", ""])
    }
    assert set(draw(text, 2000)) == expected


def test_weights_set_how_often_an_alternative_is_drawn():
    counts = Counter(draw("<sentence> = /6/ a | /3/ b | c | [/2/ d | /0.5/ e] f ;", 20_000))
    # The last alternative has weight 1 of 11; half of it says nothing before f, the rest says d or e as 2 : 0.5.
    expected = {"a": 6, "b": 3, "c": 1, "f": 0.5, "d f": 0.4, "e f": 0.1}
    for sentence, weight in expected.items():
        assert counts[sentence] / 20_000 == pytest.approx(weight / 11, abs=0.01)


def test_ranked_lists_fall_with_the_square_root_of_the_rank():
    words = [letter * 2 for letter in "abcdefghi"]
    counts = Counter(draw(f"<sentence> ~ {' | '.join(words)} ;", 30_000))
    total = sum((rank + 1) ** -0.5 for rank in range(9))
    for rank, word in enumerate(words):
        assert counts[word] / 30_000 == pytest.approx((rank + 1) ** -0.5 / total, abs=0.01)


def test_the_same_seed_draws_the_same_sentences():
    text = "<sentence> = <word> <word> <word> ; <word> ~ one | two | three | four ;"
    assert draw(text, 50, seed=3) == draw(text, 50, seed=3) != draw(text, 50, seed=4)


def test_the_vocabulary_holds_every_word_of_every_rule():
    grammar = Grammar(("a", "<sentence> = <x> (one [two] | three) ;"), ("b", "<x> ~ four | five six ;"))
    assert grammar.vocabulary() == {"one", "two", "three", "four", "five", "six"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<sentence> = go <where> ;", "no rule for <where>"),
        ("<start> = go ;", "no rule for <sentence>"),
        ("<sentence> = go ;\n<spare> = home ;", "never used: <spare>"),
        ("<sentence> = go <more> ;\n<more> = on [<sentence>] ;", "contains itself"),
        ("<sentence> = go ;\n<sentence> = stay ;", "line 2: <sentence> is already defined"),
        ("<sentence> = (go | stay ;", "line 1: expected ')', found ';'"),
        ("<sentence> = go\n\n", "expected ';', found 'the end of the file'"),
        ("<sentence> go ;", "line 1: expected = or ~ after <sentence>, found 'go'"),
        ("<sentence> = go\n  Home ;", "line 2: cannot read 'H'"),
        ("<sentence> = go /3/ home ;", "line 1: '/3/' does not belong here"),
        ("home = go ;", "line 1: expected <rule> =, found 'home'"),
    ],
)
def test_a_faulty_grammar_is_refused_with_its_place(text, complaint):
    with pytest.raises(FewerError, match=r"test\.txt") as error:
        Grammar(("test.txt", text))
    assert complaint in str(error.value)
