#!/usr/bin/env python3
"""Makes tests/fixtures/text: what Hugging Face's tokenizers make of several hundred texts.

    python3 -m pip install tokenizers
    python3 tools/make_text_fixtures.py VOCAB

VOCAB: bert-base-uncased's vocab.txt (tools/fetch_minilm.sh has it). A part of it goes into the
fixture. The files are checked in; run it again only to change them.
"""
import json
import pathlib
import random
import sys
import unicodedata

from tokenizers import BertWordPieceTokenizer

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "text"

TEXTS = """
|Hello, World!|  two  spaces\tand\ttabs\r\nand lines |unaffable unaffordable|don't can't it's|3.14 1,000 50% $5
|naïve café résumé Ångström|NAÏVE CAFÉ|über Straße STRASSE ẞ|Łódź Žižek Dvořák|İstanbul ıI iİ|ΑΒΓ αβγ ΣΊΣΥΦΟΣ ς
|Привет, мир! Ёлка и йод|Україна їжак ґанок|Ђурђевак|שלום עולם|שָׁלוֹם|مرحبا بالعالم|السَّلَامُ عَلَيْكُمْ|نویسه‌ها
|हिन्दी में नमस्ते दुनिया|தமிழ் மொழி|ภาษาไทยไม่มีช่องว่าง|ქართული ენა|Հայերեն լեզու|አማርኛ|ខ្មែរ|မြန်မာ
|你好，世界！|我爱北京天安门|日本語のテキスト、カタカナとひらがな。|ガギグゲゴ ｶﾞｷﾞ|한국어 텍스트입니다|漢字kanjiかな|𠀀𠀁𪛖 㐀㐁|豈更車賈
|🙂|👩‍👩‍👧‍👦 family|🇩🇪 flag 🏳️‍🌈|emoji🙂inside|❤️ ♥ ★|👍🏽|①②③ ⅷ Ⅷ|½ ¼ ² ³|ﬁ ﬂ ﬀ|Ｆｕｌｌｗｉｄｔｈ １２３
|a\u0000b|a\u0001b\u007fc|a\ufffdb|zero\u200bwidth\u200cjoiner\u200d|soft\u00adhyphen|bom\ufeffinside|\u202eright to left\u202c|\u2028line\u2029para
|nbsp\u00a0space\u2003em\u3000ideographic\u1680ogham|a\u0300\u0301\u0327b|e\u0301\u0323 \u0301alone|q\u0307\u0323 q\u0323\u0307|\u0344\u0374|Å Å Å|Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘
|“quotes” ‘single’ «guillemets» „low“|em—dash en–dash hyphen-minus ‐ ‑|¿Qué? ¡Sí!|… ‥ ․|a/b\\c|a_b~c`d^e|#hashtag @user|<b>html</b>|http://example.org/a?b=c&d=e#f
|[MASK] is masked|the [MASK] of [MASK].|[CLS] inside [SEP] text [PAD]|[UNK] [unk] [Mask]|x[MASK]y|[[MASK]]|[MASK|[CLS][SEP]|MASK]
|antidisestablishmentarianism|supercalifragilisticexpialidocious|pneumonoultramicroscopicsilicovolcanoconiosis|Donaudampfschifffahrtsgesellschaft
|a|.|!!!|...|((()))|-|'|"|\\|1|1234567890123456789|x1y2z3|CamelCase snake_case|ALL CAPS TEXT|mIxEd CaSe
|def f(x): return x**2  # comment|SELECT * FROM t WHERE a='b';|{"json": [1, 2.5, null]}|a+b=c; d<=e && f||E = mc²|€100 £50 ¥1000 ₿|±∞≠≤≥∑∫√|©®™|°C
"""


def long_texts():
    for n in (99, 100, 101, 200):
        yield "a" * n
        yield "word " + "é" * n + " after"
        yield "🙂" * n
    yield "the quick brown fox jumps over the lazy dog " * 40


def known_to_both(c):
    """Hugging Face's tables are of Unicode 8 and later, by kind; what is older all agree on."""
    return (unicodedata.category(c) != "Cs" and unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c)
            and unicodedata.category(c) != "Cn")


def random_texts(n):
    rng = random.Random(5)
    blocks = [(0x20, 0x7f), (0xa0, 0x250), (0x250, 0x400), (0x400, 0x530), (0x590, 0x700), (0x900, 0xe00),
              (0xe00, 0x1200), (0x1e00, 0x2000), (0x2000, 0x2c00), (0x3000, 0x3200), (0x4e00, 0x5000),
              (0xac00, 0xad00), (0xf900, 0x10000), (0x1f300, 0x1f600), (0, 0x30000)]
    for _ in range(n):
        low, high = rng.choice(blocks)
        text = ""
        while len(text) < rng.randint(1, 40):
            c = chr(rng.randrange(low, high)) if rng.random() < 0.8 else rng.choice(" ,.aeinrst\u0301\u0308")
            if known_to_both(c):
                text += c
        yield text


def main():
    vocab = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    texts = TEXTS.split("|")
    texts += [""] + list(long_texts()) + list(random_texts(400))

    # The vocabulary: special tokens, all single characters, and what the texts use; ids change.
    full = BertWordPieceTokenizer(vocab={t: i for i, t in enumerate(vocab)}, lowercase=True)
    cased = BertWordPieceTokenizer(vocab={t: i for i, t in enumerate(vocab)}, lowercase=False)
    used = {t for tok in (full, cased) for text in texts for t in tok.encode(text).tokens}
    keep = [t for i, t in enumerate(vocab)
            if i <= 103 and not t.startswith("[unused") or t in used or len(t.removeprefix("##")) == 1]
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "vocab.txt").write_text("\n".join(keep) + "\n", encoding="utf-8")

    ids = {t: i for i, t in enumerate(keep)}
    special = ["[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"]

    def tokenizer(**options):
        t = BertWordPieceTokenizer(vocab=ids, **options)
        t.add_special_tokens(special)
        return t

    variants = {"uncased": dict(lowercase=True), "cased": dict(lowercase=False),
                "accents": dict(lowercase=True, strip_accents=False),
                "bare": dict(lowercase=False, strip_accents=True, clean_text=False,
                             handle_chinese_chars=False)}
    cases = []
    tokenizers = {name: tokenizer(**options) for name, options in variants.items()}
    for text in texts:
        cases.append({"text": text, **{name: t.encode(text).ids[1:-1] for name, t in tokenizers.items()}})
    pairs = []
    rng = random.Random(6)
    t = tokenizers["uncased"]
    for _ in range(80):
        a, b = ((" ".join(rng.choice(["the", "cat", "unaffable", "über", "🙂", "x!"])
                          for _ in range(rng.randint(0, 12)))) for _ in range(2))
        n = rng.randint(3, 24)
        t.enable_truncation(n, strategy="longest_first")
        for pair in (b, None):
            e = t.encode(a, pair)
            pairs.append({"text": a, "pair": pair, "max_length": n, "ids": e.ids, "types": e.type_ids})
    with open(FOLDER / "encodings.json", "w", encoding="utf-8") as out:
        json.dump({"texts": cases, "pairs": pairs}, out, ensure_ascii=True, indent=None, separators=(",", ":"))
        out.write("\n")
    print(f"{len(keep)} tokens, {len(cases)} texts, {len(pairs)} pairs")


if __name__ == "__main__":
    main()
