#!/usr/bin/env python3
"""Makes tests/fixtures/text/minilm.safetensors: sentences and their vectors by all-MiniLM-L6-v2.

    python3 -m pip install torch transformers safetensors
    tools/fetch_minilm.sh && python3 tools/make_minilm_fixture.py build/minilm

The file is checked in; run it again only to change it.
"""
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from transformers import BertModel, BertTokenizerFast

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "text" / "minilm.safetensors"
SENTENCES = [
    "A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby.",
    "Someone in a gorilla costume is playing a set of drums.", "Le café est très bon à Paris.",
    "北京是中国的首都。", "Привет, мир!", "x", "",
    "Neural networks are trained on the processor that a person already owns. " * 8,
    "🙂 emoji, [MASK] and naïve accents!", "def f(x): return x**2  # square",
]


def main():
    folder = sys.argv[1]
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    model = BertModel.from_pretrained(folder).eval()
    batch = tokenizer(SENTENCES, padding=True, truncation=True, max_length=128, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    vectors = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9), dim=1)
    save_file({"vectors": vectors.contiguous(), "input_ids": batch["input_ids"]}, OUT,
              {"sentences": json.dumps(SENTENCES)})
    OUT.chmod(0o644)
    print(vectors.shape, (vectors @ vectors.T)[0, :3])


if __name__ == "__main__":
    main()
