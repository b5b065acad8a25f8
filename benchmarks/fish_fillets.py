"""Speech that is not English, and its translation: the dialogues of the game Fish Fillets NG, acted in Dutch and Czech.

    apt-get download fillets-ng-data fillets-ng-data-nl; for package in *.deb; do dpkg-deb -x $package GAME; done
    python benchmarks/fish_fillets.py GAME/usr/share/games/fillets-ng OUT --language nl
    fewer prepare table OUT/nl.csv --skip-bad; fewer prepare table OUT/nl-en.csv --skip-bad  # two clips are empty
    python benchmarks/models.py WORK --model whisper-base@nl --text OUT/nl.txt --set OUT/nl.jsonl
    python benchmarks/models.py WORK --model whisper-base@nl:translate --text OUT/nl-en.txt --set OUT/nl-en.jsonl

Debian's packages hold the clips, and a script of each level with every line in the language and in English. Every
third level is reported; the lines of all other levels are the text of the domain. Writes LANGUAGE.csv and LANGUAGE.txt,
and with the English lines instead of those that are spoken LANGUAGE-en.csv and LANGUAGE-en.txt.
"""

import argparse
import csv
import re
from pathlib import Path

LINE = re.compile(r'dialogId\("([^"]*)",\s*"[^"]*",\s*"((?:[^"\\]|\\.)*)"\)\s*dialogStr\("((?:[^"\\]|\\.)*)"\)')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game", type=Path, help="the folder with `script` and `sound`")
    parser.add_argument("out", type=Path)
    parser.add_argument("--language", choices=["nl", "cs"], default="nl")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    scripts = sorted(args.game.glob(f"script/*/dialogs_{args.language}.lua"))
    reported, others = scripts[::3], [script for script in scripts if script not in scripts[::3]]
    for column, name in ((2, args.language), (1, f"{args.language}-en")):
        lines = [line[column] for script in others for line in lines_of(script)]
        (args.out / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        with open(args.out / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(["id", "audio", "text"])
            for script in reported:
                level = script.parent.name
                for line in lines_of(script):
                    clip = (args.game / "sound" / level / args.language / f"{line[0]}.ogg").resolve()
                    if clip.exists():
                        table.writerow([f"{level}-{line[0]}", clip, line[column]])
    print(f"{len(reported)} of {len(scripts)} levels are reported; {len(lines)} lines of text in the others")


def lines_of(script: Path) -> list[tuple[str, str, str]]:
    """Name of the clip, the line in English, the line in the language."""
    lines = LINE.findall(script.read_text(encoding="utf-8"))
    return [(name, english.replace("\\", ""), spoken.replace("\\", "")) for name, english, spoken in lines]


if __name__ == "__main__":
    main()
