"""A WordPiece vocabulary learnt from captions, for models that start from nothing."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from sparta.tokenizer import WordPieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def learn_vocabulary(captions: Iterable[str], size: int) -> WordPieceTokenizer:
    """Learn at most `size` word pieces, lower-cased as bert-base-uncased does."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(captions, trainer)
    return WordPieceTokenizer(tokenizer)
