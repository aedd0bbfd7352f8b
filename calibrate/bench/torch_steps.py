#!/usr/bin/env python3
"""torch_steps.py - whole layers and whole training steps in PyTorch on one GPU, kernel by kernel.

What it is for: a step holds kernels that no microbenchmark has (copies, casts, fills, second kernels
of sums), and a host that launches them. Laid beside `ballast explain`, its output says which part of a
prediction is wrong. Weights and data are random, so its numbers are of time and memory alone.

    python3 torch_steps.py -o DIR [--only REGEX] [--but REGEX] [--budget SECONDS] [--seconds S]
                           [--no-operators] [--warm-compile]

Writes DIR/torch_steps.jsonl, one object a case: its shape, the time of each step, of its passes
(forward, backward, update), peak memory, clock and power at the end, every kernel of one step in order
(name, start, duration) and the time of each operator by its input shapes. Steps run one behind the
other without waiting for the device, as training loops run them; the profile is of steps of its own.
A case that fails (a library that is not there, memory) is a line on stderr, and the rest goes on.
"""
import argparse
import contextlib
import gc
import json
import os
import re
import statistics
import sys
import time
import traceback

import torch
import torch.nn as nn
import torch.nn.functional as F

GPU = torch.device("cuda")
START = time.time()


# ---- state of the GPU ----

class Meter:
    """Clock and power by NVML; zeros where its Python package is not there."""

    def __init__(self):
        try:
            import pynvml
            pynvml.nvmlInit()
            self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception:
            self.nvml = None

    def read(self):
        if self.nvml is None:
            return {"sm_MHz": 0, "power_W": 0}
        return {"sm_MHz": self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM),
                "power_W": self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1e3}


# ---- a case ----

class Training:
    """One step: forward under autocast where asked, backward, clipping, update. `mark` is called
    after each pass."""

    def __init__(self, model, forward, amp=False, clip=None, fused=True, learning_rate=1e-5):
        self.model, self.forward, self.amp, self.clip = model, forward, amp, clip
        trained = [p for p in model.parameters() if p.requires_grad]
        self.parameters = trained
        options = {"fused": True} if fused else {"foreach": True}
        self.optimizer = torch.optim.AdamW(trained, lr=learning_rate, **options)

    def __call__(self, mark):
        context = torch.autocast("cuda", torch.bfloat16) if self.amp else contextlib.nullcontext()
        with context:
            loss = self.forward()
        mark()
        loss.backward()
        mark()
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        mark()


class Layers:
    """Forward and backward of a stack of layers, nothing around them."""

    def __init__(self, model, forward, inputs):
        self.model, self.forward, self.inputs = model, forward, inputs
        self.gradient = torch.randn_like(inputs) * 1e-2

    def __call__(self, mark):
        out = self.forward(self.inputs)
        mark()
        out.backward(self.gradient)
        mark()
        for p in self.model.parameters():
            p.grad = None
        self.inputs.grad = None
        mark()


def ids(batch, length, vocabulary):
    return torch.randint(0, vocabulary, (batch, length), device=GPU)


@contextlib.contextmanager
def made_in(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with GPU:
            yield
    finally:
        torch.set_default_dtype(before)


# ---- models of Transformers ----

def llama_config(hidden, layers, ffn, heads, kv_heads, vocabulary, length, **more):
    from transformers import LlamaConfig
    return LlamaConfig(hidden_size=hidden, num_hidden_layers=layers, intermediate_size=ffn,
                       num_attention_heads=heads, num_key_value_heads=kv_heads,
                       head_dim=hidden // heads, vocab_size=vocabulary, use_cache=False,
                       max_position_embeddings=length, attn_implementation="sdpa", **more)


LLAMA_1B = dict(hidden=2048, layers=16, ffn=8192, heads=32, kv_heads=8, vocabulary=128256)


def llama_step(batch, length, dtype=torch.bfloat16, amp=False, recompute=False, compiled=False,
               fused=True, shape=LLAMA_1B, tied=True):
    from transformers import LlamaForCausalLM
    with made_in(dtype):
        model = LlamaForCausalLM(llama_config(length=length, tie_word_embeddings=tied, **shape))
    model.train()
    if recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    run = torch.compile(model) if compiled else model
    tokens = ids(batch, length, shape["vocabulary"])
    return Training(model, lambda: run(input_ids=tokens, labels=tokens, use_cache=False).loss,
                    amp=amp, clip=1.0, fused=fused)


def llama_layers(batch, length, hidden, layers, ffn, heads, kv_heads):
    from transformers import LlamaModel
    with made_in(torch.bfloat16):
        model = LlamaModel(llama_config(hidden, layers, ffn, heads, kv_heads, 128, length))
        x = torch.randn(batch, length, hidden)
    model.train()
    x.requires_grad_()
    return Layers(model, lambda t: model(inputs_embeds=t, use_cache=False).last_hidden_state, x)


def gpt2_transformers(batch, length):
    from transformers import GPT2Config, GPT2LMHeadModel
    with made_in(torch.float32):
        model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
                                           use_cache=False))
    model.train()
    tokens = ids(batch, length, 50257)
    return Training(model, lambda: model(input_ids=tokens, labels=tokens).loss, amp=True, clip=1.0)


def clip_vision(batch, pixels=336):
    from transformers import CLIPVisionConfig, CLIPVisionModel
    with made_in(torch.float32):
        model = CLIPVisionModel(CLIPVisionConfig(hidden_size=1024, intermediate_size=4096,
                                                 num_hidden_layers=24, num_attention_heads=16,
                                                 image_size=pixels, patch_size=14))
    model.train()
    images = torch.randn(batch, 3, pixels, pixels, device=GPU)
    return Training(model, lambda: model(pixel_values=images).last_hidden_state.float().mean(),
                    amp=True)


def vit_transformers(batch):
    from transformers import ViTConfig, ViTForImageClassification
    with made_in(torch.float32):
        model = ViTForImageClassification(ViTConfig(
            hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
            num_labels=1000))
    model.train()
    images, labels = torch.randn(batch, 3, 224, 224, device=GPU), ids(1, batch, 1000)[0]
    return Training(model, lambda: model(pixel_values=images, labels=labels).loss, amp=True)


def llava(batch, text_length):
    from transformers import CLIPVisionConfig, LlavaConfig, LlavaForConditionalGeneration
    image_token, image_tokens = 32000, 576
    shape = dict(LLAMA_1B, vocabulary=32064)
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(hidden_size=1024, intermediate_size=4096,
                                       num_hidden_layers=24, num_attention_heads=16,
                                       image_size=336, patch_size=14),
        text_config=llama_config(length=4096, tie_word_embeddings=False, **shape),
        image_token_index=image_token, vision_feature_layer=-2,
        vision_feature_select_strategy="default")
    with made_in(torch.bfloat16):
        model = LlavaForConditionalGeneration(config)
    model.train()
    for name, p in model.named_parameters():
        if "vision_tower" in name:
            p.requires_grad_(False)
    tokens = ids(batch, text_length + image_tokens, 31000)
    tokens[:, 5:5 + image_tokens] = image_token
    labels = tokens.masked_fill(tokens == image_token, -100)
    images = torch.randn(batch, 3, 336, 336, device=GPU, dtype=torch.bfloat16)
    return Training(model, lambda: model(input_ids=tokens, pixel_values=images, labels=labels).loss,
                    clip=1.0)


# ---- models of timm ----

def vit_timm(name, batch, compiled=False):
    import timm
    with made_in(torch.float32):
        model = timm.create_model(name, num_classes=1000)
    model.to(GPU).train()
    run = torch.compile(model) if compiled else model
    images, labels = torch.randn(batch, 3, 224, 224, device=GPU), ids(1, batch, 1000)[0]
    return Training(model, lambda: F.cross_entropy(run(images), labels), amp=True)


# ---- models of plain PyTorch ----

class Attention(nn.Module):
    def __init__(self, hidden, heads, bias, causal=False, qk_norm=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden, bias=bias), nn.Linear(hidden, hidden,
                                                                                 bias=bias)
        self.q_norm = nn.RMSNorm(hidden) if qk_norm else None
        self.k_norm = nn.RMSNorm(hidden) if qk_norm else None

    def forward(self, x):
        batch, length, hidden = x.shape
        q, k, v = self.qkv(x).split(hidden, dim=2)
        if self.q_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (t.view(batch, length, self.heads, hidden // self.heads).transpose(1, 2)
                   for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.proj(y.transpose(1, 2).reshape(batch, length, hidden))


class Mlp(nn.Module):
    def __init__(self, hidden, ffn, bias, approximate="none"):
        super().__init__()
        self.up, self.down = nn.Linear(hidden, ffn, bias=bias), nn.Linear(ffn, hidden, bias=bias)
        self.gelu = nn.GELU(approximate=approximate)

    def forward(self, x):
        return self.down(self.gelu(self.up(x)))


class GptBlock(nn.Module):
    """As nanoGPT's."""

    def __init__(self, hidden, heads, bias):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden, bias=bias), nn.LayerNorm(hidden, bias=bias)
        self.attention = Attention(hidden, heads, bias, causal=True)
        self.mlp = Mlp(hidden, 4 * hidden, bias)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, hidden=768, layers=12, heads=12, vocabulary=50304, length=1024, bias=False):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(length, hidden)
        self.blocks = nn.ModuleList(GptBlock(hidden, heads, bias) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, bias=bias)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), tokens.view(-1))


def gpt_step(batch, length=1024, compiled=False, **shape):
    with made_in(torch.float32):
        model = Gpt(length=length, **shape)
    run = torch.compile(model) if compiled else model
    tokens = ids(batch, length, 50257)
    return Training(model, lambda: run(tokens), amp=True, clip=1.0)


class InternVitBlock(nn.Module):
    """InternViT-6B: RMS norms, one norm over all heads' queries and keys, layer scale."""

    def __init__(self, hidden=3200, ffn=12800, heads=25):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.attention = Attention(hidden, heads, bias=False, qk_norm=True)
        self.mlp = Mlp(hidden, ffn, bias=True)
        self.scale1, self.scale2 = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        x = x + self.attention(self.norm1(x)) * self.scale1
        return x + self.mlp(self.norm2(x)) * self.scale2


class DitBlock(nn.Module):
    """facebookresearch/DiT: norms without weights, shift, scale and gate from the condition."""

    def __init__(self, hidden, ffn, heads, bias=True, rms=False):
        super().__init__()
        norm = nn.RMSNorm if rms else nn.LayerNorm
        self.norm1 = norm(hidden, eps=1e-6, elementwise_affine=False)
        self.norm2 = norm(hidden, eps=1e-6, elementwise_affine=False)
        self.attention, self.mlp = Attention(hidden, heads, bias), Mlp(hidden, ffn, bias, "tanh")
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 6 * hidden))

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(c).unsqueeze(1).chunk(6, dim=2)
        x = x + gate1 * self.attention(self.norm1(x) * (1 + scale1) + shift1)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class Dit(nn.Module):
    """DiT-XL/2 at 256 x 256: 256 tokens of 2 x 2 x 4 latents."""

    def __init__(self, hidden=1152, layers=28, heads=16):
        super().__init__()
        self.patch, self.condition = nn.Linear(16, hidden), nn.Linear(256, hidden)
        self.blocks = nn.ModuleList(DitBlock(hidden, 4 * hidden, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(hidden, elementwise_affine=False), nn.Linear(hidden, 32)

    def forward(self, latents, condition):
        x, c = self.patch(latents), self.condition(condition)
        for block in self.blocks:
            x = block(x, c)
        return self.head(self.norm(x)).float().square().mean()


def dit_step(batch, compiled=False):
    with made_in(torch.float32):
        model = Dit()
        latents, condition = torch.randn(batch, 256, 16), torch.randn(batch, 256)
    run = torch.compile(model) if compiled else model
    return Training(model, lambda: run(latents, condition), amp=True)


def own_layers(make, count, batch, length, hidden, condition=False):
    with made_in(torch.bfloat16):
        blocks = nn.ModuleList(make() for _ in range(count))
        x, c = torch.randn(batch, length, hidden), torch.randn(batch, hidden)
    x.requires_grad_()

    def forward(t):
        for block in blocks:
            t = block(t, c) if condition else block(t)
        return t
    return Layers(blocks, forward, x)


def fsdp_llama(batch, length):
    """A shard group of one: the copies and the host's work of FSDP2 without its traffic."""
    import torch.distributed as dist
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    if not dist.is_initialized():
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    from transformers import LlamaForCausalLM
    with made_in(torch.float32):
        model = LlamaForCausalLM(llama_config(length=length, tie_word_embeddings=True, **LLAMA_1B))
    model.train()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    tokens = ids(batch, length, LLAMA_1B["vocabulary"])
    return Training(model, lambda: model(input_ids=tokens, labels=tokens, use_cache=False).loss,
                    clip=1.0)


LLAMA3_8B = dict(hidden=4096, layers=4, ffn=14336, heads=32, kv_heads=8)
QWEN2_32B = dict(hidden=5120, layers=2, ffn=27648, heads=40, kv_heads=8)

# Name, what makes it, whether torch.compile is in it; in the order of what they tell.
CASES = [
    ("llama-1b bf16 eager 4x2048", lambda: llama_step(4, 2048), False),
    ("vit-l-16 timm amp eager 128", lambda: vit_timm("vit_large_patch16_224", 128), False),
    ("llama-1b amp eager 4x2048", lambda: llama_step(4, 2048, torch.float32, amp=True), False),
    ("layers llama3-8b 2x4096", lambda: llama_layers(2, 4096, **LLAMA3_8B), False),
    ("layers llama3-8b 1x1024", lambda: llama_layers(1, 1024, **LLAMA3_8B), False),
    ("layers qwen2-32b 1x4096", lambda: llama_layers(1, 4096, **QWEN2_32B), False),
    ("layers qwen2-32b 2x8192", lambda: llama_layers(2, 8192, **QWEN2_32B), False),
    ("layers internvit-6b 8x1025", lambda: own_layers(InternVitBlock, 4, 8, 1025, 3200), False),
    ("layers internvit-6b 2x1025", lambda: own_layers(InternVitBlock, 4, 2, 1025, 3200), False),
    ("layers dit-30b 1x8192",
     lambda: own_layers(lambda: DitBlock(6144, 24576, 48, False, True), 2, 1, 8192, 6144, True), False),
    ("layers dit-30b 1x32768",
     lambda: own_layers(lambda: DitBlock(6144, 24576, 48, False, True), 2, 1, 32768, 6144, True), False),
    ("gpt2-124m own amp eager 16x1024", lambda: gpt_step(16), False),
    ("gpt2-124m own amp compiled 16x1024", lambda: gpt_step(16, compiled=True), True),
    ("clip-vit-l-14-336 transformers amp eager 48", lambda: clip_vision(48), False),
    ("dit-xl-2 own amp eager 64", lambda: dit_step(64), False),
    ("llava clip-l-336 llama-1b bf16 eager 4x1024", lambda: llava(4, 448), False),
    ("llama-1b bf16 eager 1x128", lambda: llama_step(1, 128), False),
    ("gpt2-124m own amp eager 1x128", lambda: gpt_step(1, 128), False),
    ("vit-l-16 timm amp eager 1", lambda: vit_timm("vit_large_patch16_224", 1), False),
    ("llama-1b bf16 compiled 4x2048", lambda: llama_step(4, 2048, compiled=True), True),
    ("vit-l-16 timm amp compiled 128",
     lambda: vit_timm("vit_large_patch16_224", 128, compiled=True), True),
    ("vit-h-14 timm amp eager 64", lambda: vit_timm("vit_huge_patch14_224", 64), False),
    ("llama-1b bf16 recompute eager 4x2048", lambda: llama_step(4, 2048, recompute=True), False),
    ("gpt2-124m transformers amp eager 16x1024", lambda: gpt2_transformers(16, 1024), False),
    ("vit-l-16 transformers amp eager 128", lambda: vit_transformers(128), False),
    ("llama-8-of-32-layers-8b bf16 eager 2x4096",
     lambda: llama_step(2, 4096, shape=dict(LLAMA3_8B, layers=8, vocabulary=128256), tied=False), False),
    ("llama-1b bf16 foreach eager 4x2048", lambda: llama_step(4, 2048, fused=False), False),
    ("llama-1b fsdp2 of one eager 4x2048", lambda: fsdp_llama(4, 2048), False),
    ("gpt2-350m own amp compiled 8x1024",
     lambda: gpt_step(8, compiled=True, hidden=1024, layers=24, heads=16), True),
    ("dit-xl-2 own amp compiled 64", lambda: dit_step(64, compiled=True), True),
]


# ---- measuring ----

def times_of(step, seconds, meter, least=6, most=200):
    """Milliseconds of each step and of its passes; steps follow one another without a wait."""
    marks = []

    def mark():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        marks[-1].append(event)

    begin = time.perf_counter()
    for i in range(most):
        marks.append([])
        mark()
        step(mark)
        if i >= 4 and i % 2 == 0:
            marks[i - 3][-1].synchronize()  # not further ahead than a loop that logs
        if i + 1 >= least and time.perf_counter() - begin > seconds:
            break
    state = meter.read()
    torch.cuda.synchronize()
    steps = [m[0].elapsed_time(m[-1]) for m in marks]
    # From start to start, so that what the host does between two steps counts.
    whole = [a[0].elapsed_time(b[0]) for a, b in zip(marks, marks[1:])]
    passes = [[a.elapsed_time(b) for a, b in zip(m, m[1:])] for m in marks]
    return {"step_ms": whole, "device_ms": steps, "pass_ms": passes, **state}


def kernels_of(step):
    """Every kernel and copy of one step in order: names, and (name's index, start us, us)."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        step(lambda: None)
        torch.cuda.synchronize()
    events = [(e.start_ns(), e.duration_ns(), e.name())
              for e in profiled.profiler.kineto_results.events()
              if "CUDA" in str(e.device_type()) and e.duration_ns() > 0]
    events = sorted(e for e in events if not e[2].startswith(("ProfilerStep", "cuda")))
    names, at = [], {}
    rows = []
    for start, duration, name in events:
        if name not in at:
            at[name] = len(names)
            names.append(name)
        rows.append([at[name], round((start - events[0][0]) / 1e3, 1), round(duration / 1e3, 2)])
    return {"names": names, "rows": rows}


def operators_of(step):
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 record_shapes=True) as profiled:
        step(lambda: None)
        torch.cuda.synchronize()
    out = []
    for row in profiled.key_averages(group_by_input_shape=True):
        us = getattr(row, "self_device_time_total", 0) or 0
        if us > 0:
            out.append([row.key[:160], str(row.input_shapes)[:200], row.count, round(us, 1)])
    return sorted(out, key=lambda r: -r[3])


def measure(name, make, seconds, out, with_operators, meter):
    began = time.time()
    step = make()
    for _ in range(3):
        step(lambda: None)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    made = time.time()
    record = {"name": name, **times_of(step, seconds, meter)}
    record["peak_allocated_GiB"] = torch.cuda.max_memory_allocated() / 2**30
    record["peak_reserved_GiB"] = torch.cuda.max_memory_reserved() / 2**30
    record["parameters"] = sum(p.numel() for p in step.model.parameters())
    for what, take in (("kernels", kernels_of), ("operators", operators_of)):
        if what == "operators" and not with_operators:
            continue
        try:
            record[what] = take(step)
        except Exception as error:
            print(f"{name}: no {what}: {error!r}", file=sys.stderr, flush=True)
    out.write(json.dumps(record) + "\n")
    out.flush()
    median = statistics.median(record["step_ms"])
    busy = sum(r[2] for r in record.get("kernels", {"rows": []})["rows"]) / 1e3
    print(f"{name}: {median:.2f} ms a step ({len(record['step_ms'])}), kernels {busy:.2f} ms, "
          f"{record['peak_allocated_GiB']:.1f} GiB, {record['sm_MHz']} MHz, "
          f"{record['power_W']:.0f} W; made in {made - began:.0f}, all {time.time() - began:.0f} s, "
          f"at {time.time() - START:.0f}", file=sys.stderr, flush=True)


def release():
    gc.collect()
    torch.cuda.empty_cache()
    torch._dynamo.reset()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", default=".", metavar="DIR", dest="directory")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--but", default="^$", metavar="REGEX", help="cases whose name does not match")
    parser.add_argument("--budget", type=float, default=1e9, metavar="SECONDS",
                        help="start no case after so long")
    parser.add_argument("--seconds", type=float, default=3, help="of timed steps a case")
    parser.add_argument("--warm-compile", action="store_true",
                        help="only run the compiled cases twice, for their cache")
    parser.add_argument("--no-operators", action="store_true", help="no table by input shapes")
    arguments = parser.parse_args()
    meter = Meter()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, imports took "
          f"{time.time() - START:.0f} s", file=sys.stderr, flush=True)
    path = os.path.join(arguments.directory, "torch_steps.jsonl")
    with open(os.devnull if arguments.warm_compile else path, "a") as out:
        for name, make, compiled in CASES:
            if not re.search(arguments.only, name) or re.search(arguments.but, name):
                continue
            if arguments.warm_compile and not compiled:
                continue
            if time.time() - START > arguments.budget:
                print(f"{name}: left out, the budget is spent", file=sys.stderr)
                continue
            try:
                if arguments.warm_compile:
                    step = make()
                    step(lambda: None)
                    step(lambda: None)
                    print(f"{name}: compiled at {time.time() - START:.0f} s", file=sys.stderr, flush=True)
                    del step
                else:
                    measure(name, make, arguments.seconds, out, not arguments.no_operators, meter)
            except Exception:
                print(f"{name}: failed\n{traceback.format_exc(limit=-3)}", file=sys.stderr, flush=True)
            release()


if __name__ == "__main__":
    main()
