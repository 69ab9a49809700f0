"""The chi-squared distribution."""

from __future__ import annotations

from contraflow.distributions import constraints
from contraflow.distributions.gamma import Gamma
from contraflow.distributions.utils import broadcast_all
from contraflow.tensors.tensor import Tensor


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers.

    >>> import contraflow as cf
    >>> cf.distributions.Chi2(cf.tensor([1.0, 4.0])).variance
    tensor([2., 8.])
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return 2 * self.concentration
