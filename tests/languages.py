"""Sentences in six languages, and small tokenizers of other kinds than BERT's, trained on them."""

from itertools import product
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from sparta.tokenizer import TermTokenizer

PARTS = """
a {} {} on the beach|red green small old white|dog cat ball tent elephant boat umbrella|er|s
ein {} {} am Strand|rot grün klein alt weiß|Hund Ball Elefant Regenschirm Apfel Boot|er|en
ένας {} {} στην παραλία|κόκκινο μικρό παλιό άσπρο|σκύλο ελέφαντα γάτο ουρανό ομπρέλα|ς|ς
{} {} на пляже|красн мален стар бел|мяч слон человек ёжик зонтик велосипед|ый|ом
海滩上{}{}|红色的 小的 白色的 两个|狗 球 大象 雨伞 帐篷||们
浜辺で{}{}|赤い 小さい 白い 古い|犬 ボール テント 自転車 象||が走っている
"""
SENTENCES = [
    pattern.format(first + own, second + other)
    for pattern, ones, others, *ends in (line.split("|") for line in PARTS.split("\n")[1:-1])
    for first, second in product(ones.split(), others.split())
    for own, other in product(*(("", end) for end in ends))
]
METASPACE = "\u2581"
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"  # the parts of a text


def trained(made: Tokenizer, trainer: Any) -> TermTokenizer:
    made.train_from_iterator([f" {one}" for one in SENTENCES], trainer)
    return TermTokenizer(made)


def unigram() -> TermTokenizer:
    """As XLM-R's: with regard to case."""
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    splitters = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    made.pre_tokenizer = pre_tokenizers.Sequence(splitters)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>")
    return trained(made, trainer)


def byte_pairs(ends: str = "") -> TermTokenizer:
    """As GPT-2's, or with a mark of the ends of words as CLIP's, in lower case."""
    made = Tokenizer(
        models.BPE(end_of_word_suffix=ends, unk_token="<|e|>") if ends else models.BPE()
    )
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if ends:
        made.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
        parts = pre_tokenizers.Split(Regex(CLIP), "removed", invert=True)
        made.pre_tokenizer = pre_tokenizers.Sequence([parts, made.pre_tokenizer])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trained(
        made,
        trainers.BpeTrainer(
            vocab_size=900,
            special_tokens=["<|e|>"],
            initial_alphabet=alphabet,
            end_of_word_suffix=ends,
        ),
    )


def sentence_pieces() -> TermTokenizer:
    """Byte pairs as Gemma's: spaces are signs, and unknown characters bytes."""
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Replace(" ", METASPACE)
    made.pre_tokenizer = pre_tokenizers.Split(METASPACE, "merged_with_next")
    special = ["<unk>", "<unused0>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trained(made, trainers.BpeTrainer(vocab_size=700, special_tokens=special))
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return TermTokenizer(made)


KINDS = {
    "unigram": unigram,
    "byte-pairs": byte_pairs,
    "byte-pairs-with-ends": lambda: byte_pairs("</w>"),
    "sentence-pieces": sentence_pieces,
}
