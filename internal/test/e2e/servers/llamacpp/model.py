"""Writes a tiny model of random weights for llama.cpp: model.py FILE. It says nonsense at the speed of a small server."""

import sys

import gguf
import numpy as np

LAYERS = 12
WIDTH = 256
HEADS = 4
FEED_FORWARD = 1024
CONTEXT = 8192


def vocabulary():
    """Tokens of a SentencePiece tokenizer: three that control, each byte, and letters and a space by themselves."""
    control = [(b"<unk>", gguf.TokenType.UNKNOWN), (b"<s>", gguf.TokenType.CONTROL), (b"</s>", gguf.TokenType.CONTROL)]
    every_byte = [(f"<0x{b:02X}>".encode(), gguf.TokenType.BYTE) for b in range(256)]
    letters = [(c.encode(), gguf.TokenType.NORMAL) for c in "\u2581etaoinshrdlcumwfgypbvkjxqz"]
    return control + every_byte + letters


def main(path):
    tokens = vocabulary()
    random = np.random.default_rng(1)
    out = gguf.GGUFWriter(path, "llama")
    out.add_name("tiny")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(FEED_FORWARD)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_tokenizer_model("llama")
    out.add_token_list([t for t, _ in tokens])
    out.add_token_scores([0.0] * len(tokens))
    out.add_token_types([kind for _, kind in tokens])
    out.add_unk_token_id(0)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_chat_template("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")

    def weights(name, *shape):
        out.add_tensor(name, (random.standard_normal(shape) * 0.05).astype(np.float16))

    def ones(name):
        out.add_tensor(name, np.ones(WIDTH, dtype=np.float32))

    weights("token_embd.weight", len(tokens), WIDTH)
    weights("output.weight", len(tokens), WIDTH)
    ones("output_norm.weight")
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        ones(block + "attn_norm.weight")
        ones(block + "ffn_norm.weight")
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"{block}{name}.weight", WIDTH, WIDTH)
        weights(block + "ffn_gate.weight", FEED_FORWARD, WIDTH)
        weights(block + "ffn_up.weight", FEED_FORWARD, WIDTH)
        weights(block + "ffn_down.weight", WIDTH, FEED_FORWARD)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


main(sys.argv[1])
