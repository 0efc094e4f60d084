"""Repositories of code, models and containers by address: whose they are, unless that is public knowledge."""

from __future__ import annotations

import re

# `github.com/OWNER/NAME`, also after `git@`, of hosts that anybody may use. `git@HOST:OWNER/NAME` of any other host.
_SITES = (
    r"(?:[\w-]+\.)?(?:github|gitlab|bitbucket)\.(?:com|org)|codeberg\.org|raw\.githubusercontent\.com"
    r"|huggingface\.co|hf\.co|ghcr\.io|docker\.io"
)
_KINDS = r"(?:(?:repos|datasets|spaces|api/models|api/datasets)/)?"
_NAME = r"[A-Za-z0-9~][\w.-]*"
REPOSITORY = re.compile(
    rf"(?i)(?<![\w.-])((?:git@)?(?:{_SITES})(?::\d+/|[:/]){_KINDS})({_NAME})(?:(/)({_NAME}))?"
    rf"|(?<![\w.-])(git@)([A-Za-z0-9][\w.-]*)(:)({_NAME})(/)({_NAME})"
)
# Who publishes what training programs are built from. In links of docs and messages these names tell what is meant.
_OWNERS = """
    pytorch openxla jax-ml google google-deepmind google-research google-pytorch googlecloudplatform
    tensorflow keras-team huggingface meta-llama facebook facebookresearch qwen mistralai deepseek-ai
    eleutherai bigscience openai openai-community ai-hypercomputer vllm-project nvidia amd amd-agi rocm apple
    microsoft lightning-ai tpuprof numpy python pypa protocolbuffers grpc kubernetes apache deepmind allenai
    stanford-crfm karpathy actions features orgs settings docs blog models datasets spaces library
"""
PUBLIC_OWNERS = frozenset(_OWNERS.split())
