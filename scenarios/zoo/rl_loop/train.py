import time

import torch
import torch.nn as nn
import torch_xla

torch.manual_seed(0)
device = torch_xla.device()
policy = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 4)).to(device)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
generator = torch.Generator().manual_seed(1)
marks, returns = [], []
for episode in range(30):
    state = torch.zeros(16, 8)
    states, actions, rewards = [], [], []
    for t in range(4):
        with torch.no_grad():
            logits = policy(state.to(device)).cpu()
        action = torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)
        states.append(state)
        actions.append(action)
        state = state.roll(1, 1) + nn.functional.one_hot(action, 8).float()
        rewards.append((state[:, 0] > 0).float())
    batch = torch.cat(states).to(device)
    taken, gain = torch.cat(actions).to(device), torch.cat(rewards).to(device)
    optimizer.zero_grad()
    chosen = policy(batch).log_softmax(-1).gather(1, taken[:, None]).squeeze(1)
    loss = -(chosen * gain).mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    returns.append(gain.sum().item())
    marks.append(time.perf_counter())
print("returns", returns)
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
