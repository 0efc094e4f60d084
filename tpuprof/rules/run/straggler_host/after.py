"""Each host reads its own part."""

import torch
import torch_xla.runtime as xr

data = torch.utils.data.TensorDataset(torch.arange(1024.0))
# [shown]
part = torch.utils.data.DistributedSampler(data, num_replicas=xr.process_count(), rank=xr.process_index())
loader = torch.utils.data.DataLoader(data, batch_size=64 // xr.process_count(), sampler=part)
# [/shown]
print("result", len(loader))
