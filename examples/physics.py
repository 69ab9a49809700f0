"""A network learns a function that nobody has sampled: it only knows the equation.

Burgers' equation describes waves that steepen until friction holds them:

    u_t + u u_x = v u_xx        u(0, x) = -sin(pi x)        u(t, -1) = u(t, 1) = 0

A physics-informed network u(t, x) has no data. Its loss is by how much it violates the equation at
random points, for which it is differentiated with respect to its own inputs, twice; the gradients
of that loss are derivatives of third order, and all of it is one compiled step. At the end the
network is compared with a solution by finite differences, which it has never seen.

    python examples/physics.py            # writes physics.png here
    python examples/physics.py --quick    # a twentieth of the steps
"""

import argparse

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from tqdm import trange

import contraflow as cf
from contraflow import nn

VISCOSITY = 0.02
POINTS = 512  # at which the equation is tried in a step
PICTURE = "physics.png"


# --- the network -------------------------------------------------------------------------------


class Wave(nn.Module):
    """u(t, x) for columns t and x [n, 1], with the boundary values built in.

    The first factor is 0 at x = -1 and x = 1, and at t = 0 only the sine is left. So the network
    cannot violate these conditions, and need not learn them.
    """

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, width), nn.Tanh(),
            nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, t: cf.Tensor, x: cf.Tensor) -> cf.Tensor:
        free = self.layers(cf.cat([2 * t - 1, x], dim=1))
        return (1 - x * x) * t * free - cf.sin(cf.pi * x)


def residual(wave: nn.Module, t: cf.Tensor, x: cf.Tensor) -> cf.Tensor:
    """By how much u violates the equation at each point: 0 where it solves it."""
    t, x = t.requires_grad_(), x.requires_grad_()
    u = wave(t, x)
    # The sum's gradient is each point's own derivative: no point depends on another's inputs.
    u_t, u_x = cf.autograd.grad(u.sum(), (t, x), create_graph=True)
    (u_xx,) = cf.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t + u * u_x - VISCOSITY * u_xx


# --- training ----------------------------------------------------------------------------------


def train(wave: nn.Module, steps: int) -> list[float]:
    """Make the residual small everywhere; the loss of each step."""
    optimizer = cf.optim.Adam(wave.parameters(), lr=5e-3)
    schedule = cf.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)

    @cf.compile
    def step() -> cf.Tensor:
        # New points at every step: random numbers are drawn by the compiled program itself.
        t, x = cf.rand(POINTS, 1), 2 * cf.rand(POINTS, 1) - 1
        optimizer.zero_grad()
        loss = residual(wave, t, x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = []
    with trange(steps, unit="step") as progress:
        for number in progress:
            losses.append(step().item())
            schedule.step()
            if number % 100 == 0:
                progress.set_postfix(residual=f"{np.sqrt(losses[-1]):.4f}")
    return losses


# --- the judge ---------------------------------------------------------------------------------


def solve(times: np.ndarray, places: int = 401) -> tuple[np.ndarray, np.ndarray]:
    """The solution by finite differences: places [m], and values [len(times), m] there."""
    x = np.linspace(-1, 1, places)
    u, now, rows = -np.sin(np.pi * x), 0.0, []
    gap = x[1] - x[0]
    dt = 0.2 * min(gap, gap**2 / VISCOSITY)
    for time in times:
        for _ in range(round((time - now) / dt)):
            flux = u * u / 2
            slope = (flux[2:] - flux[:-2]) / (2 * gap)
            u[1:-1] += dt * (VISCOSITY * (u[2:] - 2 * u[1:-1] + u[:-2]) / gap**2 - slope)
            now += dt
        rows.append(u.copy())
    return x, np.array(rows)


# --- the picture -------------------------------------------------------------------------------


def draw(
    losses: list[float], x: np.ndarray, times: np.ndarray, found: np.ndarray, exact: np.ndarray
) -> None:
    """The solution as a map, as curves beside the true ones, and the course of training."""
    figure, (map_axes, curve_axes, loss_axes) = plt.subplots(
        1, 3, figsize=(13, 4), layout="constrained"
    )
    image = map_axes.imshow(
        found.T, origin="lower", aspect="auto", extent=(0, times[-1], -1, 1), cmap="RdBu_r"
    )
    figure.colorbar(image, ax=map_axes)
    map_axes.set(title="u(t, x), as the network has it", xlabel="time t", ylabel="place x")

    shown = np.linspace(0, len(times) - 1, 5).astype(int)
    for color, row in zip(plt.get_cmap("viridis")(np.linspace(0, 0.85, len(shown))), shown):
        curve_axes.plot(x, exact[row], color=color, linewidth=5, alpha=0.3)
        curve_axes.plot(x, found[row], color=color, label=f"t = {times[row]:.2f}")
    curve_axes.set(title="thin: network, wide: finite differences", xlabel="place x")
    curve_axes.legend()

    loss_axes.plot(np.sqrt(losses), linewidth=0.6)
    loss_axes.set(title="root mean square of the residual", xlabel="step", yscale="log")
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    """Train, compare, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a twentieth of the steps")
    steps = 200 if parser.parse_args().quick else 4000

    cf.manual_seed(0)
    wave = Wave()
    losses = train(wave, steps)

    times = np.linspace(0, 1, 101)
    x, exact = solve(times)
    t_grid, x_grid = np.meshgrid(times, x, indexing="ij")
    with cf.no_grad():
        columns = (cf.tensor(grid.reshape(-1, 1), dtype=cf.float32) for grid in (t_grid, x_grid))
        found = wave(*columns).numpy().reshape(t_grid.shape)
    draw(losses, x, times, found, exact)
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    print(f"{error:.2%} away from the solution by finite differences; see {PICTURE}")


if __name__ == "__main__":
    main()
