"""Loss against size and against communication, as the paper's figures draw them."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {"coreset": "#1b6ca8", "uniform": "#c8553d"}


def draw_plots(result: dict, folder: Path) -> None:
    """Write one small picture a task and set."""
    sets = result["sets"]
    big = next((one for name, one in sets.items() if name != "KC House"), None)
    if big:
        panels = {
            "ridge, testing loss (Fig. 2)": big["regression, 3 parties"]["ridge"],
            "linear (Fig. 6)": big["regression, 3 parties"]["linear"],
            "lasso (Fig. 7)": big["regression, 3 parties"]["lasso"],
            "elastic net (Fig. 8)": big["regression, 3 parties"]["elastic net"],
        }
        if "regression, 5 parties" in big:
            panels["ridge, 5 parties (Fig. 4)"] = big["regression, 5 parties"]["ridge"]
        _panels(panels, folder / "regression.png")
        panels = {
            f"{name}, {kind} ({figure})": big[part][kind]
            for part, name, figure in (
                ("k-means, 3 parties", "k = 10", "Fig. 3"),
                ("k-means, 5 parties", "5 parties", "Fig. 5"),
                ("k-means, 3 parties, k = 5", "k = 5", "Fig. 9"),
            )
            if part in big
            for kind in ("gathered", "distdim")
        }
        _panels(panels, folder / "clustering.png")
    if "KC House" in sets:
        houses = sets["KC House"]
        panels = {
            "linear (Fig. 10)": houses["regression, 2 parties"]["linear"],
            "k = 10, gathered (Fig. 11)": houses["k-means, 2 parties"]["gathered"],
            "k = 10, distdim (Fig. 11)": houses["k-means, 2 parties"]["distdim"],
        }
        _panels(panels, folder / "kc_house.png")


def _panels(panels: dict, path: Path) -> None:
    figure, axes = plt.subplots(2, len(panels), figsize=(2.6 * len(panels), 4.6), squeeze=False)
    for column, (title, one) in enumerate(panels.items()):
        for row, by in enumerate(("rows", "numbers moved")):
            axis = axes[row][column]
            for method, colour in COLOURS.items():
                sizes = list(one[method])
                across = [int(size) if row == 0 else one[method][size]["numbers"] for size in sizes]
                means = [one[method][size]["mean"] / one["central"] for size in sizes]
                deviations = [one[method][size]["sd"] / one["central"] for size in sizes]
                axis.errorbar(across, means, yerr=deviations, color=colour, label=method, capsize=2, lw=1)
            axis.axhline(1.0, color="grey", lw=0.7)
            axis.set_xlabel(by, fontsize=7)
            axis.tick_params(labelsize=6)
            if max(one["uniform"][size]["mean"] for size in one["uniform"]) > 3 * one["central"]:
                axis.set_yscale("log")
        axes[0][column].set_title(title, fontsize=7)
    axes[0][0].set_ylabel("loss over the baseline's", fontsize=7)
    axes[0][0].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)
