"""The HTTP service's default model: a random forest of 100 trees, trained when the service starts.

It predicts how far a diabetes has gone from ten standardised measures, on the data that scikit-learn ships. One
row takes about as long as 64 do, which is what a batch gains. scikit-learn is imported by the training only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from examples.recipes.backend_errors import ItemRefused

if TYPE_CHECKING:
    from collections.abc import Callable

TREES = 100
LARGEST = 3.4e38
"""The trees count in 32 bits: one larger number would fail its whole batch."""


def trained_forest() -> Callable[[list[list[float]]], list[float | ItemRefused]]:
    """Train it, and return its predictions as a processor: a plain function, so that it runs in a thread.

    Raises:
        ImportError: There is no scikit-learn.
    """
    try:
        from sklearn.datasets import load_diabetes  # noqa: PLC0415  (only who trains needs it)
        from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "the default model needs scikit-learn: `uv sync` installs it; or give a prediction_processor"
        ) from error
    rows, progress = load_diabetes(return_X_y=True)
    # One job: the batcher bounds the threads.
    forest = RandomForestRegressor(n_estimators=TREES, random_state=0, n_jobs=1).fit(rows, progress)

    def predict(rows: list[list[float]]) -> list[float | ItemRefused]:
        return _predicted(forest, rows)

    return predict


def _predicted(forest: Any, rows: list[list[float]]) -> list[float | ItemRefused]:
    """Predict for the rows that fit, and refuse the others in their own places."""
    faults = [_fault(row, forest.n_features_in_) for row in rows]
    fitting = [row for row, fault in zip(rows, faults, strict=True) if fault is None]
    values = iter(forest.predict(fitting).tolist() if fitting else ())
    return [next(values) if fault is None else ItemRefused(fault) for fault in faults]


def _fault(row: list[float], width: int) -> str | None:
    if len(row) != width:
        return f"the model takes a row of {width} numbers, and this one has {len(row)}"
    if max(map(abs, row)) > LARGEST:
        return f"the model takes numbers up to {LARGEST:g}, and this row has a larger one"
    return None
