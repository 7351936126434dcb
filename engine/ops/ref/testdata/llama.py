#!/usr/bin/python3
"""Writes the runs of models of Llama's family beside it, by Debian's PyTorch 1.13, which lacks their parts.

    apt-get install python3-torch && /usr/bin/python3 llama.py
"""
import json
import math
import struct

import torch
import torch.nn.functional as F

STEPS, VOCAB, BATCH, TIME = 3, 23, 3, 7


def rms_norm(x, weight, eps):
    """Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def frequencies(size, base, scaling):
    """Su et al., "RoFormer", 2021, and what stretches them."""
    kind, factor = scaling.get("kind", ""), scaling.get("factor", 1.0)
    if kind == "ntk":  # bloc97, "NTK-aware scaled RoPE", 2023
        base = base * factor ** (size / (size - 2))
    f = base ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    if kind == "linear":  # Chen et al., "Extending Context Window of Large Language Models via Positional Interpolation", 2023
        f = f / factor
    if kind == "llama3":  # Grattafiori et al., "The Llama 3 Herd of Models", 2024; as in its published code
        low, high, context = scaling["low"], scaling["high"], scaling["context"]
        out = []
        for x in f.tolist():
            length = 2 * math.pi / x
            if length < context / high:
                out.append(x)
            elif length > context / low:
                out.append(x / factor)
            else:
                smooth = (context / length - low) / (high - low)
                out.append((1 - smooth) * x / factor + smooth * x)
        f = torch.tensor(out, dtype=torch.float64)
    return f


def rotated(x, freq):
    """x [batch, heads, time, size]: its halves are the two numbers of each point."""
    angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * freq
    cos, sin = angle.cos().float(), angle.sin().float()
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attention(x, w, name, o, window, lengths=None):
    """Vaswani et al., 2017; heads share keys and values: Shazeer, 2019; Ainslie et al., "GQA", 2023."""
    b, t, _ = x.shape
    heads, groups, size = o["heads"], o["groups"], o["size"]

    def project(which, count):
        y = F.linear(x, w[f"{name}.{which}.weight"], w.get(f"{name}.{which}.bias"))
        return y.view(b, t, count, size).transpose(1, 2)

    q, k, v = project("q_proj", heads), project("k_proj", groups), project("v_proj", groups)
    if o["theta"]:
        freq = frequencies(size, o["theta"], o["scaling"])
        q, k = rotated(q, freq), rotated(k, freq)
    k, v = (y.repeat_interleave(heads // groups, 1) for y in (k, v))
    at = torch.arange(t)
    seen = torch.ones(t, t, dtype=torch.bool) if o["full"] else at[None] <= at[:, None]
    if window:
        seen = seen & (at[None] > at[:, None] - window) & (at[None] < at[:, None] + window)
    seen = seen.expand(b, 1, t, t)
    if lengths is not None:
        live = at < lengths[:, None]
        seen = seen & live[:, None, None] | ~live[:, None, :, None] & torch.eye(t, dtype=torch.bool)  # so that padding has a softmax
    scores = (q @ k.transpose(2, 3) / math.sqrt(size)).masked_fill(~seen, float("-inf"))
    y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, heads * size)
    if lengths is not None:
        y = y * live[:, :, None]
    return F.linear(y, w[f"{name}.o_proj.weight"], w.get(f"{name}.o_proj.bias"))


def gated(x, w, name, act):
    """Shazeer, "GLU Variants Improve Transformer", 2020."""
    gate = F.linear(x, w[f"{name}.gate_proj.weight"])
    gate = {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": gelu_tanh}[act](gate)
    return F.linear(gate * F.linear(x, w[f"{name}.up_proj.weight"]), w[f"{name}.down_proj.weight"])


def gelu_tanh(x):
    """Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def llama(ids, w, o, _):
    x = w["embed_tokens.weight"][ids]
    for i in range(o["layers"]):
        h = f"layers.{i}."
        window = o["window"] if i >= o["windowed"] else 0
        x = x + attention(rms_norm(x, w[h + "input_layernorm.weight"], o["eps"]), w, h + "self_attn", o, window)
        x = x + gated(rms_norm(x, w[h + "post_attention_layernorm.weight"], o["eps"]), w, h + "mlp", o["act"])
    x = rms_norm(x, w["norm.weight"], o["eps"])
    return F.linear(x, w["embed_tokens.weight"] if o["tied"] else w["lm_head.weight"])


def encoder(ids, w, o, lengths):
    """One block of positions that see each other, padding left out, and a class by their mean."""
    x = w["table.weight"][ids]
    x = x + attention(rms_norm(x, w["norm.weight"], o["eps"]), w, "attention", o, o["window"], lengths)
    x = gated(x, w, "gated", o["act"])
    counts = (torch.arange(TIME) < lengths[:, None]).float()[:, :, None]
    return F.linear((x * counts).sum(1) / lengths[:, None], w["classes.weight"], w["classes.bias"])


def weights(o):
    """Drawn around 0, norms around 1, by the names of Hugging Face without "model."."""
    width, heads, groups, size, hidden = o["width"], o["heads"], o["groups"], o["size"], o["hidden"]
    w = {}

    def draw(name, *shape, mean=0.0, std=0.3):
        w[name] = (torch.randn(*shape) * std + mean).requires_grad_()

    def block(norms, attn, mlp):
        for n in norms:
            draw(n + ".weight", width, mean=1, std=0.1)
        for n, count in ("q_proj", heads), ("k_proj", groups), ("v_proj", groups):
            draw(f"{attn}.{n}.weight", count * size, width)
            if o["bias"]:
                draw(f"{attn}.{n}.bias", count * size)
        draw(attn + ".o_proj.weight", width, heads * size)
        draw(mlp + ".gate_proj.weight", hidden, width)
        draw(mlp + ".up_proj.weight", hidden, width)
        draw(mlp + ".down_proj.weight", width, hidden)

    if o["model"] is encoder:
        draw("table.weight", VOCAB, width, std=1)
        block(["norm"], "attention", "gated")
        draw("classes.weight", 4, width)
        draw("classes.bias", 4)
        return w
    draw("embed_tokens.weight", VOCAB, width, std=0.5)
    for i in range(o["layers"]):
        h = f"layers.{i}."
        block([h + "input_layernorm", h + "post_attention_layernorm"], h + "self_attn", h + "mlp")
    draw("norm.weight", width, mean=1, std=0.1)
    if not o["tied"]:
        draw("lm_head.weight", VOCAB, width)
    return w


def write(name, tensors, o):
    """The safetensors format."""
    header, data, at = {"__metadata__": {k: str(v) for k, v in o.items() if k != "model"}}, [], 0
    for key, x in tensors.items():
        x = x.detach().contiguous()
        kind = "I32" if x.dtype in (torch.int64, torch.int32) else "F32"
        raw = x.to(torch.int32 if kind == "I32" else torch.float32).numpy().tobytes()
        header[key] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(name + ".safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def run(name, **o):
    torch.manual_seed(len(name))
    o = {"model": llama, "layers": 2, "width": 12, "hidden": 20, "heads": 4, "groups": 2, "size": 4, "theta": 100.0, "scaling": {}, "eps": 1e-5,
         "act": "silu", "window": 0, "windowed": 0, "bias": False, "tied": False, "full": False, **o}
    w, out = weights(o), {}
    ids = torch.randint(VOCAB, (BATCH, TIME))
    lengths = torch.tensor([TIME, 4, 1])
    target = torch.randint(4, (BATCH,)) if o["model"] is encoder else torch.randint(VOCAB, (BATCH, TIME))
    out["input"], out["target"] = ids, target
    if o["model"] is encoder:
        out["lengths"] = lengths
    out.update({"init." + k: v.detach().clone() for k, v in w.items()})
    adamw = torch.optim.AdamW(w.values(), lr=1e-3, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        adamw.zero_grad()
        logits = o["model"](ids, w, o, lengths)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))
        loss.backward()
        if step == 0:
            out["logits"] = logits
            out.update({"grad." + k: v.grad.clone() for k, v in w.items()})
        losses.append(loss.item())
        adamw.step()
    out["losses"] = torch.tensor(losses)
    out.update({"final." + k: v for k, v in w.items()})
    write(name, out, o)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run("llama-adamw", scaling={"kind": "llama3", "factor": 8.0, "low": 1.0, "high": 4.0, "context": 32})
    run("mistral-adamw", groups=1, window=3, scaling={"kind": "linear", "factor": 2.0}, act="gelu_tanh", tied=True)
    run("qwen2-adamw", groups=4, size=6, window=4, windowed=1, bias=True, scaling={"kind": "ntk", "factor": 3.0})
    run("encoder-adamw", model=encoder, full=True, window=5, theta=0.0, act="gelu")
