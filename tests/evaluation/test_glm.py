"""Mapping files."""

import random
import re
from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.evaluation.glm import Glm, Side
from tests.evaluation import sctk

RULES = """;; the rules of this test
* name "test.glm"
* format = 'NIST1'
* max_nrules = '100'
* copy_no_hit = 'T'
* case_sensitive = 'F'

HUH-UH     =>  %BCNACK        / [ ] __ [ ] ;; no
UH-HUH     =>  %BCACK         / [ ] __ [ ] ;; yes
UH         =>  %HESITATION    / [ ] __ [ ]
%UM        =>  (%HESITATION)  / [ ] __ [ ]
AIN'T      => [ARE NOT] / [ ] __ [ ]
'CAUSE     => BECAUSE
GONNA      => GOING TO ;; two words
ADVISER    => ADVISOR / [ ] __
BINYAMIN   => BENJAMIN / __ [ NETANYAHU]
FALKNER    => FAULKNER / [WILLIAM ] __
T.         => TEE / __ [ SHIRT]
DOWN SYNDROME => DOWN'S SYNDROME
FUNDRAIS   => FUND RAIS
[CANNOT ]  => [CAN NOT ]
backyard   => back yard / [ ] __ [ ]
 " FOO "   => " BAR "
A B        => B A
[NOISE]    => [] / [ ] __ [ ]
;; INPUT_DEPENDENT_APPLICATION = "ctm"
[CAN'T]    => [{CAN NOT / CANNOT}] / [ ] __ [ ]
[HE'S]     => [{HE IS / HE HAS}] / [ ] __ [ ]
[I'M]      => [I AM] / [ ] __ [ ]
;; INPUT_DEPENDENT_APPLICATION = "stm|ctm"
LAST       => FINAL / [ ] __ [ ]
"""


VOCABULARY = """huh-uh uh-huh uh %um ain't 'cause because gonna adviser advisers binyamin netanyahu down syndrome
william falkner t. shirt fundraiser cannot backyard foo a b can't he's i'm (uh) (he's) word x-ray -frag frag- (ab-) a--b
well-known-fact last (two words)"""


@pytest.fixture(scope="module")
def glm(tmp_path_factory: pytest.TempPathFactory) -> Glm:
    path = tmp_path_factory.mktemp("glm") / "test.glm"
    path.write_text(RULES)
    return Glm(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uh-huh I see", "%BCACK I SEE"),
        ("well uh uh", "WELL %HESITATION %HESITATION"),
        ("huh", "HUH"),
        ("%um yes", "(%HESITATION) YES"),
        ("advisers and supervisers", "ADVISORS AND SUPERVISERS"),
        ("binyamin netanyahu", "BENJAMIN NETANYAHU"),
        ("binyamin franklin", "BINYAMIN FRANKLIN"),
        ("william falkner and falkner", "WILLIAM FAULKNER AND FALKNER"),
        ("t. shirt t. v.", "TEE SHIRT T. V."),
        ("a fundraiser", "A FUND RAISER"),
        ("i cannot", "I CAN NOT"),
        ("a foo b", "A BAR B"),
        ("a b a b", "B A B A"),
        ("well-known x-ray frag- -ment", "WELL KNOWN X RAY FRAG- -MENT"),
        ("(going back) now", "(GOING) (BACK) NOW"),
        ("(gonna) go", "(GOING) (TO) GO"),
        ("noise here", "HERE"),
        ("can't", "CAN'T"),
        ("last", "FINAL"),
        ("  ", ""),
    ],
)
def test_references(glm: Glm, text: str, expected: str) -> None:
    assert glm(text, "ref") == expected


def test_some_rules_are_for_hypotheses_only(glm: Glm) -> None:
    assert glm("he's here and can't", "hyp") == "{HE IS / HE HAS} HERE AND {CAN NOT / CANNOT}"
    assert glm("he's here", "ref") == "HE'S HERE"


def test_what_a_rule_wrote_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "chain.glm"
    path.write_text(";;\nA => B\nB => C\n")
    assert Glm(path)("A B", "ref") == "B C"


def test_case_counts_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "case.glm"
    path.write_text(";;\nab => X\nCD => Y\n")
    assert Glm(path)("ab cd", "ref") == "AB Y"  # texts are put in upper case first


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("A B", "line 2: expected 'A => B"),
        ("=> B", "line 2: expected 'A => B"),
        ("* copy_no_hit = 'F'", "drops text"),
        ("* format = 'NIST2'", "only NIST1"),
        ("* case_sensitive = F", "value in quotes"),
    ],
)
def test_what_is_not_understood_is_an_error(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "bad.glm"
    path.write_text(f";;\n{line}\n")
    with pytest.raises(FewerError, match=problem):
        Glm(path)


@pytest.mark.parametrize("first", ["", "* name 'x'", " A => B"])
def test_the_first_line_tells_the_comment_mark(tmp_path: Path, first: str) -> None:
    path = tmp_path / "bad.glm"
    path.write_text(f"{first}\nA => B\n")
    with pytest.raises(FewerError, match="line 1: a mapping file starts with a comment"):
        Glm(path)


@pytest.mark.parametrize(
    "rule",
    [
        "WEBSTER'S =>X",
        "[WEBSTER'S] => [{WEBSTER'S / WEBSTER IS}",
        "WEBSTER'S => {WEBSTER'S / WEBSTER IS}",
        "WEBSTER'S => X / [ ]",
        "WEBSTER'S => X / [A_B ] __ [ ]",
    ],
)
def test_a_rule_with_a_slip_is_an_error_when_it_would_apply(tmp_path: Path, rule: str) -> None:
    path = tmp_path / "slip.glm"
    path.write_text(f";;\n{rule}\n")
    glm = Glm(path)
    assert glm("daniel webster", "hyp") == "DANIEL WEBSTER"
    with pytest.raises(FewerError, match=r"slip.glm, line 2"):
        glm("daniel WEBSTER'S", "hyp")


@pytest.mark.parametrize("text", ["(a", "a)", "((a) b)", "a ) ( b"])
def test_parentheses_must_pair_up(glm: Glm, text: str) -> None:
    with pytest.raises(FewerError, match="do not pair up"):
        glm(text, "ref")


@sctk.needs("csrfilt.sh", "rfilter1", "perl")
@pytest.mark.parametrize("side", ["ref", "hyp"])
def test_csrfilt_maps_the_same(tmp_path: Path, glm: Glm, side: Side) -> None:
    rng = random.Random(3)
    vocabulary = re.findall(r"\([^)]*\)|\S+", VOCABULARY)
    lines = [" ".join(rng.choice(vocabulary) for _ in range(rng.randint(1, 12))) for _ in range(500)]
    rules = tmp_path / "test.glm"  # stm is filtered by the line; ctm's rules are switched on by -t hyp
    rules.write_text(RULES.replace('"ctm"', '"hyp"'))
    text = "".join(f"f A s 0 1 <o> {line}\n" for line in lines)
    filtered = sctk.run("csrfilt.sh", "-i", "stm", "-dh", "-t", side, rules, text=text)
    theirs = [" ".join(line.partition("<o>")[2].split()) for line in filtered.splitlines()]
    assert theirs == [glm(line, side) for line in lines]
