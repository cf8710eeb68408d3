"""Parts of BERT-like checkpoints."""

from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from sparta.tokenizer import WordPieceTokenizer
from tests import tiny

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 40,
}


def byte_pairs() -> WordPieceTokenizer:
    """As RoBERTa has: special tokens <s>, <pad>, </s>, <unk>, <mask>, words with a marked space."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([" ".join(tiny.WORDS)] * 3, trainer)
    return WordPieceTokenizer(tokenizer)
