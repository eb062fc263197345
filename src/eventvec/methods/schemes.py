"""The four schemes of order-contrastive pre-training (Agrawal et al. 2022): `Order` with pairs of its own each.

They differ in the pairs with label 0 only. The options are those of the samplers: see `pairs.OrderPairs`.
"""

from __future__ import annotations

from torch import nn

from eventvec.methods.order import Order
from eventvec.pairs import BiasedOrderPairs, EntityPairs, OrderPairs, PermutationPairs


def ocp(encoder: nn.Module, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1) -> Order:
    """Return order-contrastive pre-training: a pair out of order is the same pair swapped.

    Example:
        >>> from eventvec import GRU, EventEncoder, Schema, schema
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer", None, (), (), schema.Numeric("gap"))))
        >>> ocp(encoder, length=4).pairs
        OrderPairs(length=4, skip=0, within=None, count=1)
    """
    return Order(encoder, OrderPairs(length, skip, within, count))


def ocp_biased(encoder: nn.Module, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1) -> Order:
    """Return OCP-biased: a pair with label 0 is a neighbouring pair in either order.

    Example:
        >>> from eventvec import GRU, EventEncoder, Schema, schema
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer", None, (), (), schema.Numeric("gap"))))
        >>> ocp_biased(encoder, skip=2).pairs
        BiasedOrderPairs(length=1, skip=2, within=None, count=1)
    """
    return Order(encoder, BiasedOrderPairs(length, skip, within, count))


def pcl(encoder: nn.Module, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1) -> Order:
    """Return permutation-contrastive learning: a pair with label 0 is any two distinct windows of the row.

    Example:
        >>> from eventvec import GRU, EventEncoder, Schema, schema
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer", None, (), (), schema.Numeric("gap"))))
        >>> pcl(encoder, within="area").pairs
        PermutationPairs(length=1, skip=0, within='area', count=1)
    """
    return Order(encoder, PermutationPairs(length, skip, within, count))


def entity_contrastive(
    encoder: nn.Module, length: int = 1, skip: int = 0, within: str | None = None, count: int = 1
) -> Order:
    """Return entity-contrastive learning: a pair with label 0 has another row's window as its second.

    Example:
        >>> from eventvec import GRU, EventEncoder, Schema, schema
        >>> encoder = GRU(EventEncoder(Schema("id", "t", "integer", None, (), (), schema.Numeric("gap"))))
        >>> entity_contrastive(encoder, count=5).pairs
        EntityPairs(length=1, skip=0, within=None, count=5)
    """
    return Order(encoder, EntityPairs(length, skip, within, count))
