"""Probability distributions: samples, densities, divergences, transforms and constraints."""

from contraflow.distributions import constraints, utils
from contraflow.distributions.bernoulli import Bernoulli
from contraflow.distributions.categorical import Categorical
from contraflow.distributions.distribution import Distribution
from contraflow.distributions.exp_family import ExponentialFamily
from contraflow.distributions.normal import Normal
from contraflow.distributions.uniform import Uniform

__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "ExponentialFamily",
    "Normal",
    "Uniform",
    "constraints",
    "utils",
]
