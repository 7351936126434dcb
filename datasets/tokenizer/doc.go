// Package tokenizer turns text into token ids and back.
//
// A [Tokenizer] is one of three kinds. [Chars] numbers the characters of a text,
// [Bytes] has an id for each byte, and a [BPE] (byte pair encoding) joins bytes
// into words and parts of words: [GPT2] is the one of GPT-2, [Load] reads others
// from Hugging Face's tokenizer.json, and a [Learner] makes one from a text.
//
//	t := tokenizer.GPT2()
//	ids, err := t.Encode(ctx, nil, []byte("Hello, world"))
//	text := t.Decode(nil, ids)
//
// All are safe for concurrent use, and a long text can be encoded in parallel:
// [Tokenizer.Cut] says where it can be cut.
//
// A tokenizer.json may be hostile: it is refused within the memory that its size
// justifies, by the name of the first thing that is not understood.
package tokenizer
