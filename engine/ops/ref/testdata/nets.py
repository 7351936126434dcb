#!/usr/bin/python3
"""Writes the runs of networks of images beside it, by Debian's PyTorch 1.13 in float64, from weights that float32 holds.

    apt-get install python3-torch python3-torchvision && /usr/bin/python3 nets.py
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

from llama import write

STEPS = 3


class Basic(nn.Module):
    """relu(x + f(x)), He et al., "Deep Residual Learning for Image Recognition", 2015."""

    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.downsample = shortcut(before, width, stride)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(self.downsample(x) + y)


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = shortcut(before, 4 * width, stride)

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.downsample(x) + self.bn3(self.conv3(y)))


def shortcut(before, after, stride):
    if stride == 1 and before == after:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))


class ResNet(nn.Module):
    def __init__(self, block, blocks, width, small, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False) if small else nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        before, grow = width, 4 if block is Bottleneck else 1
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(block(before, width << stage, 2 if stage > 0 and i == 0 else 1))
                before = (width << stage) * grow
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


RESNETS = {18: (Basic, (2, 2, 2, 2)), 34: (Basic, (3, 4, 6, 3)), 50: (Bottleneck, (3, 4, 6, 3))}


class ViTBlock(nn.Module):
    """Norms come first, and gelu is the exact one: Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.layernorm_before, self.layernorm_after = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.ModuleDict({
            "attention": nn.ModuleDict({n: nn.Linear(width, width) for n in ("query", "key", "value")}),
            "output": nn.ModuleDict({"dense": nn.Linear(width, width)}),
        })
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, 4 * width)})
        self.output = nn.ModuleDict({"dense": nn.Linear(4 * width, width)})

    def attend(self, x):  # x [B,T,C]
        b, t, c = x.shape
        q, k, v = (self.attention["attention"][n](x).view(b, t, self.heads, -1).transpose(1, 2) for n in ("query", "key", "value"))
        y = (q @ k.transpose(2, 3) * (c // self.heads) ** -0.5).softmax(-1) @ v
        return self.attention["output"]["dense"](y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attend(self.layernorm_before(x))
        return x + self.output["dense"](F.gelu(self.intermediate["dense"](self.layernorm_after(x))))


class ViT(nn.Module):
    def __init__(self, size, patch, width, layers, heads, classes):
        super().__init__()
        self.embeddings = nn.ParameterDict({
            "cls_token": nn.Parameter(torch.randn(1, 1, width)),
            "position_embeddings": nn.Parameter(torch.randn(1, 1 + (size // patch) ** 2, width)),
        })
        self.embeddings.patch_embeddings = nn.ModuleDict({"projection": nn.Conv2d(3, width, patch, patch)})
        self.encoder = nn.ModuleDict({"layer": nn.Sequential(*[ViTBlock(width, heads) for _ in range(layers)])})
        self.layernorm, self.classifier = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x):
        e = self.embeddings
        x = e.patch_embeddings["projection"](x).flatten(2).transpose(1, 2)
        x = torch.cat([e["cls_token"].expand(len(x), -1, -1), x], 1) + e["position_embeddings"]
        return self.classifier(self.layernorm(self.encoder["layer"](x))[:, 0])


class Groups(nn.Module):
    """Convolutions with dilation, with groupnorms (Wu and He, "Group Normalization", 2018), and a pool to a given size."""

    def __init__(self):
        super().__init__()
        self.conv1, self.gn1 = nn.Conv2d(3, 6, 3, padding=2, dilation=2), nn.GroupNorm(2, 6)
        self.conv2, self.gn2 = nn.Conv2d(6, 9, (3, 3), 2, 3, dilation=3, groups=3), nn.GroupNorm(3, 9)
        self.pool, self.fc = nn.AdaptiveAvgPool2d((3, 2)), nn.Linear(54, 5)

    def forward(self, x):
        x = F.relu(self.gn2(self.conv2(F.relu(self.gn1(self.conv1(x))))))
        return self.fc(self.pool(x).flatten(1))


def run(name, model, size, classes, batch, optimizer, final=True):
    torch.manual_seed(len(name))
    with torch.no_grad():
        for key, w in model.named_parameters():
            if w.dim() == 1:
                w.copy_(torch.randn_like(w) * 0.1 + (1 if "weight" in key else 0))
            else:
                w.copy_(torch.randn_like(w) * (2 / w[0].numel()) ** 0.5)
            w.copy_(w.float())
    x, target = torch.randn(batch, 3, *size).float().double(), torch.randint(classes, (batch,))
    target[0] = classes - 1  # by which a reader counts the classes
    out = {"input": x, "target": target}
    out.update({"init." + k: w.detach().clone() for k, w in model.named_parameters()})
    step, losses = optimizer(model.parameters()), []
    for i in range(STEPS):
        step.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, target)
        loss.backward()
        if i == 0:
            out["logits"] = logits
            out.update({"grad." + k: w.grad.clone() for k, w in model.named_parameters()})
        losses.append(loss.item())
        step.step()
    out["losses"] = torch.tensor(losses)
    if final:
        out.update({"final." + k: w for k, w in model.named_parameters()})
    out.update({"statistic." + k: w for k, w in model.named_buffers() if w.dim() == 1})
    write(name, out, {"optimizer": type(step).__name__})


def check_names():
    """The names and shapes of all residual networks are those of torchvision."""
    for depth, (block, blocks) in RESNETS.items():
        have, want = ResNet(block, blocks, 64, False, 1000), getattr(torchvision.models, f"resnet{depth}")()
        have, want = ({k: v.shape for k, v in m.state_dict().items()} for m in (have, want))
        assert have == want, depth
    for width, heads, count in (192, 3, 5_717_416), (384, 6, 22_050_664):
        assert sum(p.numel() for p in ViT(224, 16, width, 12, heads, 1000).parameters()) == count


def momentum(p):
    return torch.optim.SGD(p, lr=0.05, momentum=0.9)


def adamw(p):
    return torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01)


if __name__ == "__main__":
    torch.set_num_threads(1)
    check_names()
    torch.set_default_dtype(torch.float64)
    run("resnet18-sgd", ResNet(*RESNETS[18], 1, True, 5), (16, 12), 5, 6, momentum)
    run("resnet50-sgd", ResNet(*RESNETS[50], 1, False, 5), (24, 32), 5, 4, momentum, final=False)
    run("vit-adamw", ViT(12, 4, 12, 2, 3, 6), (12, 12), 6, 4, adamw)
    run("groups-sgd", Groups(), (11, 9), 5, 4, momentum)
