"""Methods: one file per idea of a paper. `METHODS` names them."""

from collections.abc import Callable

from eventvec.methods.coles import CoLES, coles_paper
from eventvec.methods.cpc import CPC
from eventvec.methods.cresp import CReSP, fclr
from eventvec.methods.cresp_targeted import TargetedCReSP
from eventvec.methods.cross_order import CrossOrder
from eventvec.methods.declarations import Method
from eventvec.methods.expclr import ExpCLR
from eventvec.methods.expert_triplets import ExpertTriplets
from eventvec.methods.explained import ExplainedFeatures, explained_features
from eventvec.methods.masked_language import MaskedLanguage
from eventvec.methods.metacde import MetaCDE
from eventvec.methods.neural_processes import CNP, acnp, acnp_cross, cnp
from eventvec.methods.next_event import NextEvent
from eventvec.methods.order_contrastive import Order, entity_contrastive, ocp, ocp_biased, pcl
from eventvec.methods.permuted_covariates import CovariateUse, covariate_use
from eventvec.methods.rtd import RTD
from eventvec.methods.siamese import Siamese
from eventvec.methods.slice_pairs import SlicePairs, nsp, sop
from eventvec.methods.supervised import Supervised
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.methods.ts2vec import TS2Vec

METHODS: dict[str, Callable[..., Method]] = {
    "acnp": acnp,
    "acnp_cross": acnp_cross,
    "cnp": cnp,
    "coles": CoLES,
    "coles_paper": coles_paper,
    "cpc": CPC,
    "cresp": TargetedCReSP,
    "cresp_untargeted": CReSP,
    "cross_order": CrossOrder,
    "entity_contrastive": entity_contrastive,
    "expclr": ExpCLR,
    "expert_triplets": ExpertTriplets,
    "fclr": fclr,
    "masked_language": MaskedLanguage,
    "metacde": MetaCDE,
    "next_event": NextEvent,
    "nsp": nsp,
    "ocp": ocp,
    "ocp_biased": ocp_biased,
    "pcl": pcl,
    "rtd": RTD,
    "siamese": Siamese,
    "sop": sop,
    "supervised": Supervised,
    "tpp_embedding": TPPEmbedding,
    "ts2vec": TS2Vec,
}
"""The methods by their names in a configuration; several names may build the same class."""

__all__ = [
    "CNP",
    "CPC",
    "METHODS",
    "RTD",
    "CReSP",
    "CoLES",
    "CovariateUse",
    "CrossOrder",
    "ExpCLR",
    "ExpertTriplets",
    "ExplainedFeatures",
    "MaskedLanguage",
    "MetaCDE",
    "Method",
    "NextEvent",
    "Order",
    "Siamese",
    "SlicePairs",
    "Supervised",
    "TPPEmbedding",
    "TS2Vec",
    "TargetedCReSP",
    "acnp",
    "acnp_cross",
    "cnp",
    "coles_paper",
    "covariate_use",
    "entity_contrastive",
    "explained_features",
    "fclr",
    "nsp",
    "ocp",
    "ocp_biased",
    "pcl",
    "sop",
]
