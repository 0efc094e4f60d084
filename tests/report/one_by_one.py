"""Redacts a message as a function of one text does: what bundles do for all texts of a profile together."""

from tpuprof.share.redact_proto import MessageRedaction


class OneByOne:
    def __init__(self, text):
        self.text = text

    def texts(self, texts):
        return [self.text(each) for each in texts]

    def again(self, text, times):
        for _ in range(times):
            self.text(text)


def redact_xspace(data, text):
    return MessageRedaction(OneByOne(text)).xspace(data)


def redact_hlo(data, text):
    return MessageRedaction(OneByOne(text)).hlo(data)
