package serve

import (
	"fmt"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/internal/units"
)

// The parts of Limits.Memory.
const (
	connectionShare = 8        // an eighth is for connections
	connectionBytes = 16 << 10 // of one: its buffers; headers count with their request
)

// What a request takes beside its data, in bytes.
const (
	requestBytes    = 32 << 10
	predictionBytes = 128 // of an answer beside its numbers
	tokenBytes      = 64  // of the text of a token that is generated
	collector       = 2   // the heap may grow to twice the data in it before garbage is collected
)

// textFactor is by how much the text of an answer takes more memory than its numbers, while
// it is written. Answers of a request are written one by one.
const textFactor = 12

// encodeFactor is the memory that encoding a text takes, in its bytes: a copy, ids, and those
// of the tokenizer.
const encodeFactor = 10

// costs tell the memory of requests before they are read.
type costs struct {
	sample   int64 // bytes of a sample's numbers
	numbers  int   // of a sample, or the fields of a row; 0 where it may have fewer, or be a text
	packed   bool  // samples have lengths: they are padded, and packed
	texts    bool  // samples may be texts
	pictures bool  // samples may be images in base64
	shortest int64 // bytes of JSON of the shortest sample, and the comma behind it
	answer   int64 // bytes of an answer's numbers
	context  int64 // tokens of a text that is generated
	tokens   int64 // that such a text gets at most
}

// newCosts is those of a model, whose answers have so many bytes of numbers.
func newCosts(info *datasets.Info, answer int64, l *Limits) *costs {
	m := info.Inputs[0].Meta
	c := &costs{sample: m.Bytes(), answer: answer, packed: info.Buckets != nil, texts: info.Tokenizer != nil, pictures: info.Pictures != nil, context: int64(m.Elems()), tokens: int64(l.Tokens)}
	switch {
	case c.packed:
		c.shortest = 4 // [1],
	case c.texts:
		c.shortest = int64(m.Elems()) // a token has a byte at least
	case info.Columns != nil: // a row has the columns that it must have, in text
		c.numbers = required(info.Columns)
		c.shortest = max(3, 2*int64(c.numbers)) // {},
	default:
		c.numbers = m.Elems()
		c.shortest = 2 * int64(m.Elems())
	}
	return c
}

// costsOf is those of a service, whichever of its adapters is asked.
func costsOf(s *berth.Service, l *Limits) (c *costs) {
	for _, part := range s.Parts() {
		of, err := s.Adapter(part.Adapter)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		x := newCosts(of.Info(), of.AnswerBytes(), l)
		if c == nil {
			c = x
			continue
		}
		c.sample, c.answer, c.context, c.tokens = max(c.sample, x.sample), max(c.answer, x.answer), max(c.context, x.context), max(c.tokens, x.tokens)
		c.numbers, c.shortest = min(c.numbers, x.numbers), min(c.shortest, x.shortest)
		c.packed, c.texts, c.pictures = c.packed || x.packed, c.texts || x.texts, c.pictures || x.pictures
	}
	return c
}

// samples is the most samples that a body of so many bytes has, with so many commas.
func (c *costs) samples(body, commas int64, l *Limits) int64 {
	n := min(int64(l.Samples), 1+body/c.shortest, 1+commas)
	if c.numbers > 0 {
		n = min(n, 1+commas/int64(c.numbers))
	}
	return n
}

// predict is the memory that a request takes with so many samples, in a body of so many
// bytes, 0 where it is gone.
func (c *costs) predict(body, samples int64) int64 {
	bytes := body + samples*(c.sample+predictionBytes) + c.answer*(samples+textFactor)
	if c.packed {
		bytes += samples * 2 * (c.sample + 4)
	}
	if c.texts {
		bytes += body + encodeFactor*min(body, tokenizer.CutBytes)
	}
	return requestBytes + collector*bytes
}

// generate is the memory that a text takes whose prompt comes in a body of so many bytes.
// Decoding takes two copies beside it.
func (c *costs) generate(body int64) int64 {
	return requestBytes + collector*(3*body+encodeFactor*min(body, tokenizer.CutBytes)+8*c.context+tokenBytes*c.tokens)
}

// generating is the memory of a text whose prompt is decoded, of so many bytes, 0 where it
// is encoded.
func (c *costs) generating(prompt int64, tokens int) int64 {
	return requestBytes + collector*(prompt+encodeFactor*min(prompt, tokenizer.CutBytes)+8*c.context+tokenBytes*int64(tokens))
}

// admit makes want what a request holds before it is read, with memory: most is what it may
// take, and least what it takes in any case. One that could take more than a client may have
// gets all of that.
func (p *pass) admit(want use, least, most int64) *problem {
	each := p.gate.each.memory
	if least > each {
		return beyond("", "the body takes %s of memory, and a request may take %s: send less in a request", units.Bytes(least), units.Bytes(each))
	}
	want.memory = min(most, each)
	return p.hold(want)
}

// measured is admit once the number of samples is known, or the most that there may be.
func (p *pass) measured(c *costs, body, samples int64) *problem {
	need, each := c.predict(body, samples), p.gate.each.memory
	if need <= each {
		return p.hold(use{requests: 1, memory: need})
	}
	one := c.predict(body, 1)
	return beyond("inputs", "%d samples and their answers take %s of memory, and a request may take %s: send at most %d samples",
		samples, units.Bytes(need), units.Bytes(each), 1+(each-one)/(c.predict(body, 2)-one))
}

// fits refuses bounds that have no room for one sample with its answer.
func (c *costs) fits(g *gate, l *Limits) error {
	need := c.predict(c.shortest, 1)
	if need <= g.each.memory {
		return nil
	}
	return fmt.Errorf("%w: a request may take %s of memory, a share of the %s of all requests, and one sample with its answer takes %s: allow more (--max-memory, --client-share)",
		ErrOptions, units.Bytes(g.each.memory), units.Bytes(l.Memory), units.Bytes(need))
}

// usualMemory is the default of Limits.Memory: half of what the process can still take. The
// other half is for newer weights, and for what else the process does.
func usualMemory() int64 {
	free, err := host.Available()
	if err != nil {
		return 1 << 30
	}
	return free / 2
}
