"""A policy learns to balance a pole on a cart, from rewards alone: REINFORCE.

The cart can be pushed to the left or to the right, and every moment that the pole stands is worth a
point. Nobody tells the policy which push was right. It tries at random, and what came before many
points becomes likelier: the gradient of log p(action), times how much better the outcome was than
usual. `cf.distributions` has the policy's distribution, and the world is forty lines of NumPy.

    python examples/reinforce.py            # writes reinforce.png here
    python examples/reinforce.py --quick    # a few updates
"""

import argparse
from collections.abc import Callable
from functools import partial

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from tqdm import trange

import contraflow as cf
from contraflow import nn
from contraflow.distributions import Categorical

CARTS = 32  # that are balanced at once
LONGEST = 300  # moments, after which an attempt counts as a success
PICTURE = "reinforce.png"


# --- the world ---------------------------------------------------------------------------------


class Carts:
    """Poles on carts, all at once: place, speed, angle and spin of each, [CARTS, 4]."""

    gravity, length, cart_mass, pole_mass, force, interval = 9.8, 0.5, 1.0, 0.1, 10.0, 0.02

    def __init__(self, random: np.random.Generator, count: int = CARTS) -> None:
        self.state = random.uniform(-0.05, 0.05, (count, 4))
        self.standing = np.ones(count, dtype=bool)

    def push(self, right: np.ndarray) -> np.ndarray:
        """Push each cart to one side for a moment; 1 for each pole that stood before, else 0."""
        _, speed, angle, spin = self.state.T
        mass, arm = self.cart_mass + self.pole_mass, self.pole_mass * self.length
        sine, cosine = np.sin(angle), np.cos(angle)
        pushed = (np.where(right, self.force, -self.force) + arm * spin**2 * sine) / mass
        turning = (self.gravity * sine - cosine * pushed) / (
            self.length * (4 / 3 - self.pole_mass * cosine**2 / mass)
        )
        change = np.stack([speed, pushed - arm * turning * cosine / mass, spin, turning], axis=1)
        reward = self.standing.astype(np.float32)
        self.state = np.where(
            self.standing[:, None], self.state + self.interval * change, self.state
        )
        self.standing &= (abs(self.state[:, 0]) < 2.4) & (abs(self.state[:, 2]) < 0.21)
        return reward


# --- the policy --------------------------------------------------------------------------------


def make_policy() -> nn.Sequential:
    """States [n, 4] to scores of the two pushes [n, 2]."""
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))


def act(policy: nn.Module, states: cf.Tensor) -> cf.Tensor:
    """A push [n] for each state [n, 4], drawn by the policy's chances."""
    return Categorical(logits=policy(states)).sample()


def attempt(
    choose: Callable[[cf.Tensor], cf.Tensor], carts: Carts
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Balance until all have fallen; states [t, n, 4], actions [t, n] and rewards [t, n]."""
    states, actions, rewards = [], [], []
    for _ in range(LONGEST):
        states.append(carts.state.astype(np.float32))
        actions.append(choose(cf.tensor(states[-1])).numpy())
        rewards.append(carts.push(actions[-1] == 1))
        if not carts.standing.any():
            break
    return np.stack(states), np.stack(actions), np.stack(rewards)


def outcomes(rewards: np.ndarray, discount: float = 0.98) -> np.ndarray:
    """What came after each moment: the sum of rewards [t, n] from there on, later ones less."""
    sums = np.zeros_like(rewards)
    rest = np.zeros_like(rewards[0])
    for moment in reversed(range(len(rewards))):
        rest = rewards[moment] + discount * rest
        sums[moment] = rest
    return sums


# --- training ----------------------------------------------------------------------------------


def train(policy: nn.Module, updates: int) -> list[np.ndarray]:
    """Improve the policy; how long each pole stood, for each update."""
    random = np.random.default_rng(0)
    optimizer = cf.optim.Adam(policy.parameters(), lr=1e-2)
    compiled_act = cf.compile(partial(act, policy))

    # Every attempt has another length, and a program is compiled for each new shape. So the moments
    # are padded to one shape, and those after a fall weigh nothing.
    @cf.compile
    def improve(states: cf.Tensor, actions: cf.Tensor, better: cf.Tensor) -> cf.Tensor:
        optimizer.zero_grad()
        loss = -(Categorical(logits=policy(states)).log_prob(actions) * better).sum()
        loss.backward()
        optimizer.step()
        return loss

    lengths = []
    with trange(updates, unit="update") as progress:
        for _ in progress:
            with cf.no_grad():
                states, actions, rewards = attempt(compiled_act, Carts(random))
            stood = rewards > 0
            sums = outcomes(rewards)
            # Better than usual: usual is the mean over all carts that stood at that moment.
            usual = (sums * stood).sum(1, keepdims=True) / stood.sum(1, keepdims=True).clip(1)
            better = (sums - usual) * stood
            better /= better[stood].std() + 1e-6
            missing = LONGEST - len(rewards)
            padded = [
                np.pad(values, [(0, missing)] + [(0, 0)] * (values.ndim - 1))
                for values in (states, actions, better / stood.sum())
            ]
            improve(*map(cf.tensor, padded))
            lengths.append(rewards.sum(0))
            progress.set_postfix(stood=f"{lengths[-1].mean():.0f} of {LONGEST}")
    return lengths


# --- the picture -------------------------------------------------------------------------------


def draw(policy: nn.Module, untrained: nn.Module, lengths: list[np.ndarray]) -> None:
    """How long the poles stood, the angles of some, and the policy as a map."""
    figure, (course, film, map_axes) = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    mean = np.array([values.mean() for values in lengths])
    course.fill_between(
        range(len(lengths)),
        [np.quantile(values, 0.1) for values in lengths],
        [np.quantile(values, 0.9) for values in lengths],
        alpha=0.3,
        label=f"80 % of {CARTS} carts",
    )
    course.plot(mean, label="mean")
    course.set(title="how long the pole stands", xlabel="update", ylabel="moments")
    course.legend(loc="lower right")

    for name, color, chosen in (("untrained", "C3", untrained), ("trained", "C0", policy)):
        carts = Carts(np.random.default_rng(1), 12)
        with cf.no_grad():
            states, _, rewards = attempt(partial(act, chosen), carts)
        angles = np.degrees(np.where(rewards > 0, states[:, :, 2], np.nan))
        film.plot(angles, color=color, alpha=0.6, linewidth=0.8)
        film.plot([], color=color, label=name)
    film.set(title="twelve poles: from 12 degrees on they fall", xlabel="moment", ylabel="angle")
    film.legend()

    angle, spin = np.meshgrid(np.linspace(-0.21, 0.21, 80), np.linspace(-2, 2, 80))
    grid = np.stack([0 * angle, 0 * angle, angle, spin], axis=-1).reshape(-1, 4)
    with cf.no_grad():
        right = policy(cf.tensor(grid, dtype=cf.float32)).softmax(1)[:, 1].numpy()
    image = map_axes.pcolormesh(
        angle, spin, right.reshape(angle.shape), cmap="RdBu_r", vmin=0, vmax=1
    )
    figure.colorbar(image, ax=map_axes)
    map_axes.set(title="chance of a push to the right", xlabel="angle", ylabel="spin")
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Train, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few updates")
    updates = 10 if parser.parse_args().quick else 80

    cf.manual_seed(0)
    policy, untrained = make_policy(), make_policy()
    lengths = train(policy, updates)
    draw(policy, untrained, lengths)
    first, last = lengths[0].mean(), np.mean(lengths[-5:])
    print(
        f"the pole stood for {first:.0f} moments at first and for {last:.0f} at last; see {PICTURE}"
    )


if __name__ == "__main__":
    main()
