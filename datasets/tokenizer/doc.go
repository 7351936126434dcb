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
//
// # Why is GPT-2's tokenizer inside the binary?
//
// Text models are compared with GPT-2's, and a name that works without a network is worth 0.2 MB. Other
// tokenizers come as files.
//
// # Why is bpe:4096 one word?
//
// The kind and its size are one choice, and no other kind has a size. A config with it needs no file beside
// it: the tokenizer follows from the text, and the run keeps it. It is learnt from the whole text, the
// validation part included: merges hold next to nothing of it, and `bits per byte` does not depend on them.
//
// # Why are texts cut where a space follows, or a letter ends?
//
// Texts are tokenized in pieces, in parallel, and the tokens must be those of the text as a whole. A split
// pattern may look any distance ahead, so no cut is safe for all. No pattern of a tokenizer.json in use has
// a word that goes on to a space, or from a letter to punctuation other than an apostrophe. The cuts depend
// on the text alone, so the tokens are the same on any machine.
//
// A tokenizer like SentencePiece's has no pattern: merges may join whole sentences. But it lists its
// merges, so it is known which characters none of them joins, such as a letter and the space after it.
// Texts are cut between those. In a piece, too, what lies between two such places is a word, which is
// remembered with its tokens: without that, each text would be merged anew.
//
// # Why do the split patterns of GPT-2, Llama 3 and Qwen2 have code of their own?
//
// A regular expression library splits 3 MB a second, and code for the patterns that most tokenizers have
// 60. Tests compare the two. Other patterns go through the library, which knows lookahead, with a limit
// on its time.
package tokenizer
