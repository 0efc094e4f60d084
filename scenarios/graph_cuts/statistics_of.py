"""What is computed of each gradient."""

import torch

STATISTICS = (torch.sum, torch.max, torch.min, torch.mean, torch.std, torch.var, torch.prod)
