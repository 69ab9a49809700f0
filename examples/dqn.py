"""A network learns the way out of a maze: deep Q-learning.

The walker knows where it is and may go in four directions; a step into a wall leaves it where it
was. A reward waits at the exit only. The network learns how much each step is worth, Q(place,
step), from remembered moves, in any order: a step is worth its reward or, a little discounted, as
much as the best step that follows it, which a slowly changing copy of the network tells.

At the end the learned ways are compared with the shortest ones, of which the network knows nothing.

    python examples/dqn.py            # writes dqn.png here
    python examples/dqn.py --quick    # a twentieth of the moves
"""

import argparse
from collections import deque

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from tqdm import trange

import contraflow as cf
from contraflow import nn
from contraflow.nn import functional as F

MAZE = """
###############
#   #     #   #
# # # ### # # #
# #   #   # # #
# ##### ### # #
#     #     # #
### # ##### # #
#   #     # # #
# # ##### # ###
#       #    X#
###############
""".strip().splitlines()

STEPS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # up, right, down, left
DISCOUNT = 0.95
BATCH = 128
PICTURE = "dqn.png"


# --- the world ---------------------------------------------------------------------------------


class Maze:
    """The maze of the picture above. A place is a pair (row, column)."""

    def __init__(self) -> None:
        letters = np.array([list(line) for line in MAZE])
        self.wall = letters == "#"
        self.exit = tuple(np.argwhere(letters == "X")[0])
        self.free = np.argwhere(letters == " ")  # [places, 2]

    def walk(self, places: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where a step from each place [n, 2] leads, and whether that is the exit [n]."""
        ahead = places + STEPS[steps]
        blocked = self.wall[ahead[:, 0], ahead[:, 1]]
        after = np.where(blocked[:, None], places, ahead)
        return after, (after == self.exit).all(axis=1)

    def distances(self) -> np.ndarray:
        """The least number of steps from each place to the exit, by breadth-first search."""
        found = np.full(self.wall.shape, -1)
        found[self.exit] = 0
        queue = deque([self.exit])
        while queue:
            place = queue.popleft()
            for step in STEPS:
                ahead = tuple(np.add(place, step))
                if not self.wall[ahead] and found[ahead] < 0:
                    found[ahead] = found[place] + 1
                    queue.append(ahead)
        return found


# --- the network -------------------------------------------------------------------------------


class Worth(nn.Module):
    """What each step is worth: places [n, 2] to [n, 4]."""

    def __init__(self, rows: int, columns: int, width: int = 128) -> None:
        super().__init__()
        self.row, self.column = nn.Embedding(rows, width), nn.Embedding(columns, width)
        self.mix = nn.Sequential(nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, places: cf.Tensor) -> cf.Tensor:
        return self.mix(self.row(places[:, 0]) + self.column(places[:, 1]))


# --- training ----------------------------------------------------------------------------------


def train(maze: Maze, worth: Worth, target: Worth, rounds: int) -> tuple[list[float], list[float]]:
    """Walk and learn; the loss of each round, and the share of right ways every 50 rounds."""
    random = np.random.default_rng(0)
    optimizer = cf.optim.Adam(worth.parameters(), lr=1e-3)
    schedule = cf.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=rounds)

    @cf.compile
    def learn(before: cf.Tensor, step: cf.Tensor, after: cf.Tensor, out: cf.Tensor) -> cf.Tensor:
        with cf.no_grad():
            # Double Q-learning: one network chooses the next step, the other says its worth.
            best = worth(after).argmax(1, keepdim=True)
            following = target(after).gather(1, best).squeeze(1)
            expected = cf.where(out, 1.0, DISCOUNT * following)
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(worth(before).gather(1, step.unsqueeze(1)).squeeze(1), expected)
        loss.backward()
        optimizer.step()
        with cf.no_grad():
            for slow, new in zip(target.parameters(), worth.parameters()):
                slow.lerp_(new, 0.01)
        return loss

    @cf.compile
    def choose(places: cf.Tensor) -> cf.Tensor:
        return worth(places).argmax(1)

    walkers = maze.free[random.integers(len(maze.free), size=32)]
    memory: deque[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = deque(maxlen=300)
    losses, shares = [], []
    shortest = maze.distances()
    with trange(rounds, unit="round") as progress:
        for number in progress:
            # Curious at first, sure of itself later: a random step instead of the best one.
            curious = max(0.1, 1 - 2 * number / rounds)
            with cf.no_grad():
                steps = choose(cf.tensor(walkers)).numpy()
            steps = np.where(random.random(32) < curious, random.integers(4, size=32), steps)
            after, out = maze.walk(walkers, steps)
            memory.append((walkers, steps, after, out))
            # A walker that is out begins anew, and now and then one that may be lost does.
            anew = out | (random.random(32) < 0.02)
            walkers = np.where(
                anew[:, None], maze.free[random.integers(len(maze.free), size=32)], after
            )

            recalled = [memory[i] for i in random.integers(len(memory), size=BATCH // 32)]
            losses.append(
                learn(*(cf.tensor(np.concatenate(part)) for part in zip(*recalled))).item()
            )
            schedule.step()
            if number % 50 == 49:
                shares.append(float(np.mean(ways(maze, worth) == shortest[tuple(maze.free.T)])))
                progress.set_postfix(shortest=f"{shares[-1]:.0%}")
    return losses, shares


def ways(maze: Maze, worth: Worth) -> np.ndarray:
    """How many steps the learned way from each free place has; a large number if it never ends."""
    places, lengths = maze.free.copy(), np.full(len(maze.free), 10_000)
    with cf.no_grad():
        best = np.zeros(maze.wall.shape, dtype=int)
        best[tuple(maze.free.T)] = worth(cf.tensor(maze.free)).argmax(1).numpy()
    for length in range(1, 100):
        places, out = maze.walk(places, best[tuple(places.T)])
        lengths[out & (lengths == 10_000)] = length
    return lengths


# --- the picture -------------------------------------------------------------------------------


def draw(maze: Maze, worth: Worth, losses: list[float], shares: list[float]) -> None:
    """The maze with what each place is worth and the best step, and the course of learning."""
    figure, (map_axes, share_axes, loss_axes) = plt.subplots(
        1, 3, figsize=(14, 4.5), layout="constrained", width_ratios=[1.5, 1, 1]
    )
    with cf.no_grad():
        values = worth(cf.tensor(maze.free)).numpy()
    grid = np.full(maze.wall.shape, np.nan)
    grid[tuple(maze.free.T)] = values.max(1)
    grid[maze.exit] = 1
    colors = plt.get_cmap("viridis").with_extremes(bad="#333333")
    figure.colorbar(map_axes.imshow(grid, cmap=colors, vmin=0), ax=map_axes, shrink=0.8)
    down, right = STEPS[values.argmax(1)].T
    map_axes.quiver(*maze.free.T[::-1], right, -down, color="white", scale=22, width=0.006)
    map_axes.text(*maze.exit[::-1], "exit", ha="center", va="center", color="black", size=8)
    map_axes.set(title="what a place is worth, and where to go", xticks=[], yticks=[])

    share_axes.plot(np.arange(1, len(shares) + 1) * 50, shares)
    share_axes.set(title="places with a shortest way out", xlabel="round", ylim=(0, 1.02))
    share_axes.yaxis.set_major_formatter(PercentFormatter(1.0))

    loss_axes.plot(losses, linewidth=0.5)
    loss_axes.set(title="loss of each round", xlabel="round", yscale="log")
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Train, compare, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a twentieth of the moves")
    rounds = 200 if parser.parse_args().quick else 4000

    cf.manual_seed(0)
    maze = Maze()
    worth, target = Worth(*maze.wall.shape), Worth(*maze.wall.shape)
    target.load_state_dict(worth.state_dict())
    losses, shares = train(maze, worth, target, rounds)
    draw(maze, worth, losses, shares)
    found, shortest = ways(maze, worth), maze.distances()[tuple(maze.free.T)]
    right = (found == shortest).sum()
    print(
        f"the learned way out is a shortest one from {right} of {len(found)} places; see {PICTURE}"
    )


if __name__ == "__main__":
    main()
