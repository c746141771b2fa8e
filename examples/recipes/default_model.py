"""The HTTP service's default model: a random forest of 100 trees, trained when the service starts.

It predicts how far a diabetes has gone from ten standardised measures, on the data that scikit-learn ships. One
row takes about as long as 64 do, which is what a batch gains. scikit-learn is imported by the training only, and
nothing else that is not the standard library's.
"""

from __future__ import annotations

from typing import Any

TREES = 100
LARGEST = 3.4e38
"""The trees count in 32 bits: one larger number would fail its whole batch."""


class Forest:
    """A trained model. Its methods are plain, so that a batcher runs them in a thread."""

    def __init__(self, trees: Any) -> None:
        self._trees = trees
        self._width: int = trees.n_features_in_

    def predict(self, rows: list[list[float]]) -> list[float]:
        """Predict for rows that `fault` finds none with."""
        predicted: list[float] = self._trees.predict(rows).tolist()
        return predicted

    def fault(self, row: list[float]) -> str | None:
        """Say what is wrong with one row, or `None`."""
        if len(row) != self._width:
            return f"the model takes a row of {self._width} numbers, and this one has {len(row)}"
        if max(map(abs, row)) > LARGEST:
            return f"the model takes numbers up to {LARGEST:g}, and this row has a larger one"
        return None


def trained_forest() -> Forest:
    """Train it: about a third of a second, and scikit-learn's import before that.

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
    return Forest(RandomForestRegressor(n_estimators=TREES, random_state=0, n_jobs=1).fit(rows, progress))
