import torch.distributed as dist


class TorchDistBackend:
    def __init__(self, group=None):
        self._group = group

    def Get_size(self):
        return dist.get_world_size(self._group)

    def allgather(self, data):
        everything = [None] * self.Get_size()
        dist.all_gather_object(everything, data, group=self._group)
        return everything

    def barrier(self):
        dist.barrier(group=self._group)
