"""What is computed of each gradient."""

import torch

STATISTICS = (torch.sum, torch.max, torch.min, torch.mean)
