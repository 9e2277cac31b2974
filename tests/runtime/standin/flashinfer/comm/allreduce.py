import torch
import torch.distributed as dist

from .faults import fault
from .mnnvl import TorchDistBackend
from .trtllm_ar import _symm_workspace_refs

ERA = "@ERA@"
BUFFERS = 3


class Buffer:
    """A buffer with peers. Like the real one it knows its span either itself or through its communicator."""

    def __init__(self, span, backend):
        if ERA == "symmetric_memory":
            self.world_size = span
        else:
            self.comm_backend = backend


class StandinWorkspace:
    backend = "trtllm"

    def __init__(self, rank, size, tokens, hidden, dtype, comm_backend, group):
        self.group = group if ERA == "symmetric_memory" or comm_backend is None else comm_backend._group
        self.capacity = tokens * hidden
        backend = TorchDistBackend(self.group)
        fault("create")
        shapes = backend.allgather((tokens, hidden, str(dtype)))
        if len(set(shapes)) != 1:
            raise RuntimeError("block sizes differ between the ranks")
        self.ipc_handles = [[0] * size]
        self.mem_handles = [Buffer(backend.Get_size(), backend) for _ in range(BUFFERS)]
        self._internal_workspace = (self.ipc_handles, self.mem_handles)
        _symm_workspace_refs[id(self.ipc_handles)] = self.mem_handles
        fault("created")
        backend.barrier()

    def destroy(self):
        del self.ipc_handles, self.mem_handles


def create_allreduce_fusion_workspace(
    backend="auto",
    world_size=None,
    rank=None,
    max_token_num=None,
    hidden_dim=None,
    dtype=None,
    gpus_per_node=None,
    comm_backend=None,
    force_oneshot_support=False,
    group=None,
):
    assert backend == "trtllm", "the adapter never leaves the choice to the library"
    return StandinWorkspace(rank, world_size, max_token_num, hidden_dim, dtype, comm_backend, group)


def allreduce_fusion(
    input,
    workspace,
    pattern,
    launch_with_pdl=False,
    trigger_completion_at_end=True,
    output=None,
    residual_out=None,
    norm_out=None,
    residual_in=None,
    rms_gamma=None,
    rms_eps=1e-6,
    use_oneshot=None,
    fp32_acc=False,
):
    assert 0 < input.numel() <= workspace.capacity
    wrong = fault("call")
    total = input.float()
    dist.all_reduce(total, group=workspace.group)
    total += residual_in.float()
    if wrong:
        total += torch.randn_like(total)
    residual_out.copy_(total)
    norm_out.copy_(total * torch.rsqrt(total.square().mean(-1, keepdim=True) + rms_eps) * rms_gamma.float())
