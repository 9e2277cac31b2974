from .allreduce import allreduce_fusion, create_allreduce_fusion_workspace


class AllReduceFusionPattern:
    kAllReduce = 0
    kARResidualRMSNorm = 1


__all__ = ["AllReduceFusionPattern", "allreduce_fusion", "create_allreduce_fusion_workspace"]
