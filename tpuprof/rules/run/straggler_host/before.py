"""Every host reads and prepares the whole data set."""

import torch

data = torch.utils.data.TensorDataset(torch.arange(1024.0))
# [shown]
loader = torch.utils.data.DataLoader(data, batch_size=64)
# [/shown]
print("result", len(loader))
