package metrics

import "math"

func init() {
	builtIn(Metric{
		Name: "perplexity", Kinds: []Kind{Classes}, Texts: true, Lower: true, Usual: true, Value: perplexity,
		Doc: "e to the loss: the model is as unsure as between that many tokens",
	})
	builtIn(Metric{
		Name: "bits_per_byte", Kinds: []Kind{Classes}, Texts: true, Lower: true, Bytes: true, Value: bitsPerByte,
		Doc: "the loss in bits for each byte of the text, which compares models with other tokenizers",
	})
}

func perplexity(c *Collected) float64 { return math.Exp(c.Loss) }

func bitsPerByte(c *Collected) float64 {
	if c.Bytes == 0 {
		return math.NaN()
	}
	return c.Loss / math.Ln2 * float64(c.Answers) / float64(c.Bytes)
}
