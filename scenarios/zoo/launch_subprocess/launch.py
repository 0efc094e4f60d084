import subprocess
import sys

print("starting")
sys.exit(subprocess.run([sys.executable, "train.py"]).returncode)
