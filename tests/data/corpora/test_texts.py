"""Transcripts become plain words by the rules that texts.py states."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.data.corpora.texts import Case, fisher_text, stm_text, switchboard_text, tedlium_text
from fewer.data.spelling import fold_space


@pytest.mark.parametrize(
    ("transcript", "words"),
    [
        ("[silence]", ""),
        ("[noise] hi [laughter] there [vocalized-noise]", "hi there"),
        ("[laughter-story] [laughter-i'm] [laughter-ab[solute]-]", "story i'm ab-"),
        ("[it'n/isn't] [lem[guini]-/linguini]", "it'n lem-"),
        ("ab[solute]- ab[solute] -[an]y [an]y i['m]-", "ab- ab- -y -y i-"),
        ("ex[specially]-/especially]", "ex-"),
        ("ammu[n]ition", "ammu-ition"),
        ("{yuppiedom} them_1 them_1's", "yuppiedom them them's"),
        ("<b_aside> come here <e_aside> okay", "come here okay"),
        ("UM-HUM um-hm mhm mm-hmm", "um-hum um-hum um-hum um-hum"),
        ("uh-huh uhhuh uh-uh huh um hm mm", "uh-huh uh-huh uh-uh huh um hm mm"),
        ("i- - i mean i'd", "i- i mean i'd"),
    ],
)
def test_switchboard(transcript, words):
    assert switchboard_text(transcript) == words


@pytest.mark.parametrize(
    ("transcript", "words"),
    [
        (" an- so the topic is ", "an- so the topic is"),
        ("(( i guess )) so (( ))", "i guess so"),
        ("[laughter] [mn] [[skip]] [lipsmack] [noise]", ""),
        ("C._N._N. and T._V.s and the F._B._I.'s", "c n n and t v's and the f b i's"),
        ("well, okay? yes.", "well okay yes"),
        ("hello <german (( ja wohl )) > this is", "hello this is"),
        ("'cause i love 'em *mandatory", "-cause i love -em mandatory"),
        ("he said 'go home' i don't", "he said go home i don't"),
        ("mhm uh-huh mm-hm", "um-hum uh-huh um-hum"),
    ],
)
def test_fisher(transcript, words):
    assert fisher_text(transcript) == words


@pytest.mark.parametrize(
    ("transcript", "words"),
    [
        ("HE IS A POLICE OFFICER", "he is a police officer"),
        ("(%HESITATION) YEAH %UH (I-) ((I-) WENT", "yeah i- i- went"),
        ("<B_ASIDE> COME <E_ASIDE> ON", "come on"),
        ("{ YOU KNOW / Y'KNOW } { RIGHT / @ }", "you know right"),
        ("the t. v. and C._N._N.'s", "the t v and c n n's"),
        ("MHM", "um-hum"),
        ("(%HESITATION)", ""),
    ],
)
def test_scoring_reference(transcript, words):
    assert stm_text(transcript) == words


@pytest.mark.parametrize(
    ("transcript", "words"),
    [
        ("i 'm sure it 's ours and we 'll see they 've won", "i'm sure it's ours and we'll see they've won"),
        ("don 't you 'd they 're", "don't you'd they're"),
        ("nine o 'clock y 'all ma 'am coup d 'etat", "nine o'clock y'all ma'am coup d'etat"),
        ("the ' 60s and 'cause the parents ' house", "the '60s and 'cause the parents' house"),
        ("of the(2) lakota <sil> and <unk> {NOISE} more", "of the lakota and more"),
        ("thank you (AaronHuey_2010X-1-F0_M)", "thank you"),
        ("<unk>", ""),
    ],
)
def test_tedlium(transcript, words):
    assert tedlium_text(transcript) == words


PIECES = ["[laughter]", "[laughter-", "[noise]", "<b_aside>", "<unk>", "%uh", "_1", "(2)", "a._b.", "t.", "@", "/", "*"]
PIECES += ["]", "[", "(", "))", "{", "}", "-", "'", "?", "Yes", "no", "mhm", "don't", " ", "  "]
MARKUP = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@settings(deadline=None)
@given(MARKUP)
def test_no_markup_survives_and_cleaning_twice_changes_nothing(transcript):
    for clean in (switchboard_text, fisher_text, stm_text):
        words = clean(transcript)
        assert words == words.lower()
        assert fold_space(words) == words
        assert not re.search(r"[][(){}<>]", words) or clean is switchboard_text
        assert not re.search(r"[][{}<>]", words)
        assert all(re.search(r"\w", word) for word in words.split())
    assert fisher_text(fisher_text(transcript)) == fisher_text(transcript)


def test_case():
    assert [case.apply("It's") for case in Case] == ["It's", "it's", "IT'S"]
