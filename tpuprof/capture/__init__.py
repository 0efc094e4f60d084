"""Records a few steady steps of a training run into a run folder."""
