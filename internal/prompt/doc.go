// Package prompt has sleeping threads woken without delay, and goroutines run beside those that compute.
package prompt
