"""A deep model is compiled anew at every start."""

from deep import train_briefly

train_briefly()
