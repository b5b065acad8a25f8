"""Fisher transcripts become plain text, one utterance per line."""

import pytest

from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import fisher, write_lines


def test_both_parts_in_the_order_of_conversations(tmp_path):
    fisher(tmp_path)
    summaries = prepare("fisher_text", tmp_path, tmp_path / "out")
    assert [(one.name, one.utterances, one.words, one.wordless) for one in summaries] == [
        ("fisher-part1", 3, 23, 2),
        ("fisher-part2", 1, 3, 0),
    ]
    assert (tmp_path / "out/fisher-part1.txt").read_text().splitlines() == [
        "and i generally prefer -em -cause mandatory okay",
        "an- so the topic is",
        "uh-huh um-hum i watch c n n and t v's",
    ]
    assert (tmp_path / "out/fisher-part2.txt").read_text() == "hello this is\n"


def test_one_part_alone(tmp_path):
    corpus = fisher(tmp_path)
    summaries = prepare("fisher_text", corpus / "LDC2005T19", tmp_path / "out", PrepareOptions())
    assert [one.name for one in summaries] == ["fisher-part2"]


def test_bad_input(tmp_path):
    corpus = fisher(tmp_path)
    path = corpus / "LDC2004T19/fe_03_p1_tran/data/trans/000/fe_03_00004.txt"
    write_lines(path, "# fe_03_00004.sph", "", "7.38 8.78 C: what")
    with pytest.raises(
        FewerError, match=r"fe_03_00004.txt, line 3: expected `begin end A: words`, found '7.38 8.78 C: what'"
    ):
        prepare("fisher_text", corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(FewerError, match=r"there are no Fisher transcripts"):
        prepare("fisher_text", corpus / "LDC2004T19/fe_03_p1_tran/doc", tmp_path / "out")


def test_a_conversation_in_two_places(tmp_path):
    corpus = fisher(tmp_path)
    write_lines(corpus / "copy/data/trans/000/fe_03_00004.txt", "# fe_03_00004.sph", "", "1 2 A: again")
    with pytest.raises(FewerError, match=r"fe_03_00004.txt: the conversation is there twice"):
        prepare("fisher_text", corpus, tmp_path / "out")
