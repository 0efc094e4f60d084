"""Functions that save a checkpoint: of PyTorch, and of libraries that train.

A library's own includes what it does beside `torch.save`: it gathers the state, writes the bytes, and moves files.
"""

# (module, class or empty, function)
SAVES = (
    ("torch", "", "save"),
    ("torch_xla.core.xla_model", "", "save"),
    ("torch.distributed.checkpoint", "", "save"),
    ("transformers.trainer", "Trainer", "_save_checkpoint"),
    ("accelerate.accelerator", "Accelerator", "save_state"),
    ("lightning.pytorch.trainer.trainer", "Trainer", "save_checkpoint"),
    ("pytorch_lightning.trainer.trainer", "Trainer", "save_checkpoint"),
    # Orbax saves in threads: what holds training up is the copy to the host, and the wait for those threads.
    ("orbax.checkpoint.checkpoint_manager", "CheckpointManager", "save"),
    ("orbax.checkpoint.checkpoint_manager", "CheckpointManager", "wait_until_finished"),
    ("orbax.checkpoint._src.checkpointers.checkpointer", "Checkpointer", "save"),
    ("orbax.checkpoint._src.checkpointers.async_checkpointer", "AsyncCheckpointer", "save"),
    ("orbax.checkpoint._src.checkpointers.async_checkpointer", "AsyncCheckpointer", "wait_until_finished"),
)
