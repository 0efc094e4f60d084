import http.server
import json
import threading
import time
import urllib.request

import torch
import torch.nn as nn
import torch_xla


class Slow(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.06)
        body = json.dumps([0.5] * 64).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"


def fetch():
    with urllib.request.urlopen(url) as reply:
        return torch.tensor(json.load(reply))


torch.manual_seed(0)
device = torch_xla.device()
model = nn.Linear(64, 64).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
marks = []
for step in range(30):
    x = fetch().to(device)
    optimizer.zero_grad()
    loss = (model(x) - x).square().mean()
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    marks.append(time.perf_counter())
print("loss", loss.item())
print(f"{(time.perf_counter() - marks[4]) / 25 * 1e3:.2f} ms per step")
print("seconds", *(f"{b - a:.5f}" for a, b in zip(marks, marks[1:])))
