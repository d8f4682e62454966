"""The training that peers run: a torchvision model, or ResNet-20, on one batch of random images.

A step is zero_grad, forward, cross entropy, backward and SGD with momentum 0.9, eager and channels
last unless its caller says otherwise. torch is imported by the functions, so that a program can
set what torch reads as it starts.
"""


def add_arguments(parser):
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--masked", type=float, default=0, metavar="SHARE",
                        help="of the weights of convolutions and linear layers, the smallest (torch.nn.utils.prune)")


def make_model(name, classes):
    if name == "resnet20":
        import torch_cifar

        return torch_cifar.ResNet20(classes)
    import torchvision

    aux = {"aux_logits": False, "init_weights": False} if name in ("inception_v3", "googlenet") else {}
    return getattr(torchvision.models, name)(num_classes=classes, **aux)


def masked_weights(model):
    """(module, "weight") of all convolutions and linear layers."""
    import torch

    kinds = torch.nn.Conv2d, torch.nn.Linear
    return [(module, "weight") for module in model.modules() if isinstance(module, kinds)]


class Training:
    """Model, optimizer and batch of the arguments above; step() trains once and returns the loss."""

    def __init__(self, a, channels_last=True, weight_decay=0, autocast=False, compiled=False):
        import torch

        torch.manual_seed(0)
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self.model = make_model(a.model, a.classes)
        if a.masked:  # in its own layout: the ranking takes no other
            from torch.nn.utils import prune

            prune.global_unstructured(masked_weights(self.model), prune.L1Unstructured, amount=a.masked)
        self.model = self.model.to(memory_format=layout).train()
        self.images = torch.randn(a.batch, 3, a.size, a.size).contiguous(memory_format=layout)
        self.labels = torch.randint(0, a.classes, (a.batch,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9,
                                         weight_decay=weight_decay)
        self.forward = torch.compile(self.model) if compiled else self.model
        self.autocast = autocast

    def step(self):
        import torch

        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = torch.nn.functional.cross_entropy(self.forward(self.images), self.labels)
        loss.backward()
        self.optimizer.step()
        return loss
