// Package prompt has sleeping threads woken without delay.
package prompt
