// Package edit measures how far apart two words are, for the hints of messages
// about a misspelt one. The function to know is [Distance].
package edit
