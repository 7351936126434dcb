// Command tables compares models of tables with scikit-learn's logistic and ridge regression. It
// writes three invented tables, raw, with words, dates and missing values; passengers who survive,
// customers who leave, and prices of houses; trains a linear model and an MLP on each; and prints
// F1 or R² over rows that neither has seen. scikit_learn.py prints scikit-learn's on the same rows
// and features.
//
//	go run ./bench/tables -out /tmp/tables
//	/usr/bin/python3 bench/tables/scikit_learn.py /tmp/tables
package main
