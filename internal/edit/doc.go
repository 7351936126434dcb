// Package edit measures how far apart two words are, for the hints of messages
// about a misspelt one. The functions to know are [Nearest] and
// [Distance].
package edit
