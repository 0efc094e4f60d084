"""A deep model is compiled again at every start."""

from deep import train_briefly

train_briefly()
