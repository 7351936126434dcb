package tokenizer

import "unicode/utf8"

// Files write a token's bytes as characters: printable bytes as the character of
// that number, and the others as those from U+0100 on.
var (
	byteNames = nameBytes()
	namedByte = bytesByName()
)

func nameBytes() (names [256]rune) {
	next := rune(256)
	for b := range names {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			names[b] = rune(b)
			continue
		}
		names[b] = next
		next++
	}
	return names
}

func bytesByName() map[rune]byte {
	m := make(map[rune]byte, 256)
	for b, name := range byteNames {
		m[name] = byte(b)
	}
	return m
}

// named is the characters that a file writes for bytes.
func named(token string) string {
	out := make([]byte, 0, 2*len(token))
	for i := range len(token) {
		out = utf8.AppendRune(out, byteNames[token[i]])
	}
	return string(out)
}

// unnamed is the bytes that a file's characters stand for; false if one stands for
// none.
func unnamed(name string) (string, bool) {
	out := make([]byte, 0, len(name))
	for _, r := range name {
		b, ok := namedByte[r]
		if !ok {
			return "", false
		}
		out = append(out, b)
	}
	return string(out), true
}
