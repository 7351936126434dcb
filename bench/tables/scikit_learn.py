"""Prints the F1 or R² of scikit-learn's logistic and ridge regression on the tables in a folder,
over the rows and features of the models that `go run ./bench/tables` trains there. Python with
scikit-learn 1.2.1, such as Debian's python3-sklearn.

    /usr/bin/python3 bench/tables/scikit_learn.py /tmp/tables
"""

import csv
import datetime
import sys

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

MISSING = {"", "na", "n/a", "null", "?", "nan"}

# The label, and the columns that go in by kind. Names, addresses and keys are left out.
TABLES = {
    "passengers": ("survived", ["age", "siblings", "fare"], ["class", "sex", "port"], ["boarded"]),
    "customers": ("churn", ["age", "usage", "support_calls"], ["plan", "country", "paperless"], ["signed_up"]),
    "houses": ("price", ["area", "rooms", "built"], ["district", "condition", "garden"], ["sold"]),
}


def columns(path, label, numbers, words, dates):
    """The columns of a file: numbers, then the parts of dates, then words; and the labels."""
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))

    def value(row, name):
        return None if row[name].lower() in MISSING else row[name]

    def parts(text):
        day = datetime.date.fromisoformat(text)
        return [day.year, day.month, day.weekday(), 0, day.toordinal()]

    x = [
        [float(value(row, c) or "nan") for c in numbers]
        + [p for c in dates for p in parts(row[c])]
        + [value(row, c) for c in words]
        for row in rows
    ]
    return np.array(x, dtype=object), np.array([row[label] for row in rows])


def score(folder, name):
    label, numbers, words, dates = TABLES[name]
    x, y = columns(f"{folder}/{name}.csv", label, numbers, words, dates)
    x_test, y_test = columns(f"{folder}/{name}-test.csv", label, numbers, words, dates)
    n = len(numbers) + 5 * len(dates)
    features = ColumnTransformer([
        ("numbers", make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), list(range(n))),
        ("words", make_pipeline(SimpleImputer(missing_values=None, strategy="most_frequent", add_indicator=True),
                                OneHotEncoder(handle_unknown="ignore")), list(range(n, n + len(words)))),
    ])
    if name == "houses":
        model = make_pipeline(features, Ridge()).fit(x, y.astype(float))
        return "r2", r2_score(y_test.astype(float), model.predict(x_test))
    model = make_pipeline(features, LogisticRegression(max_iter=1000)).fit(x, y)
    return "f1", f1_score(y_test, model.predict(x_test), average="macro")


for table in TABLES:
    metric, value = score(sys.argv[1], table)
    print(f"{table:10}  scikit-learn  {metric} {value:.4f}")
