from .faults import fault

_symm_workspace_refs = {}


def get_trtllm_comm_module():
    fault("load")
    return
