"""Probability distributions: samples, densities, divergences, transforms and constraints."""

import contraflow.distributions.divergences
import contraflow.distributions.event_divergences  # noqa: F401 (they register themselves)
from contraflow.distributions import constraints, transforms, utils
from contraflow.distributions.bernoulli import Bernoulli
from contraflow.distributions.beta import Beta
from contraflow.distributions.binomial import Binomial
from contraflow.distributions.categorical import Categorical
from contraflow.distributions.cauchy import Cauchy
from contraflow.distributions.chi2 import Chi2
from contraflow.distributions.constraint_registry import biject_to, transform_to
from contraflow.distributions.continuous_bernoulli import ContinuousBernoulli
from contraflow.distributions.dirichlet import Dirichlet
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.exponential import Exponential
from contraflow.distributions.fishersnedecor import FisherSnedecor
from contraflow.distributions.gamma import Gamma
from contraflow.distributions.generalized_pareto import GeneralizedPareto
from contraflow.distributions.geometric import Geometric
from contraflow.distributions.gumbel import Gumbel
from contraflow.distributions.half_cauchy import HalfCauchy
from contraflow.distributions.half_normal import HalfNormal
from contraflow.distributions.independent import Independent
from contraflow.distributions.inverse_gamma import InverseGamma
from contraflow.distributions.kl import kl_divergence, register_kl
from contraflow.distributions.kumaraswamy import Kumaraswamy
from contraflow.distributions.laplace import Laplace
from contraflow.distributions.lkj_cholesky import LKJCholesky
from contraflow.distributions.log_normal import LogNormal
from contraflow.distributions.logistic_normal import LogisticNormal
from contraflow.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from contraflow.distributions.mixture_same_family import MixtureSameFamily
from contraflow.distributions.multinomial import Multinomial
from contraflow.distributions.multivariate_normal import MultivariateNormal
from contraflow.distributions.negative_binomial import NegativeBinomial
from contraflow.distributions.normal import Normal
from contraflow.distributions.one_hot_categorical import (
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from contraflow.distributions.pareto import Pareto
from contraflow.distributions.poisson import Poisson
from contraflow.distributions.relaxed_bernoulli import RelaxedBernoulli
from contraflow.distributions.relaxed_categorical import RelaxedOneHotCategorical
from contraflow.distributions.studentT import StudentT
from contraflow.distributions.transformed_distribution import TransformedDistribution
from contraflow.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from contraflow.distributions.uniform import Uniform
from contraflow.distributions.von_mises import VonMises
from contraflow.distributions.weibull import Weibull
from contraflow.distributions.wishart import Wishart
from contraflow.names import getter

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraints",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
    "utils",
]

globals()["__getattr__"] = getter(__name__)
