package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/errs"
)

// GenerateOptions describes a text to generate. The zero value of the others, with a
// Prompt, takes the likeliest token each time, until the model's context is full.
type GenerateOptions struct {
	Prompt string // the beginning, of at least one token
	// Messages are, in place of Prompt, a conversation to answer. The model's chat template makes the
	// prompt of them, and the answer ends where the template ends one.
	Messages []chat.Message
	Tokens   int // most tokens to generate; 0: no limit

	// A token is drawn by its probability. Temperature divides the logits before the
	// softmax: below 1 likely tokens become likelier, and 0 takes the likeliest. TopK
	// leaves that many of the likeliest tokens (0: all). TopP leaves likely tokens until
	// their probabilities sum to it (0 and 1: all).
	Temperature float64
	TopK        int
	TopP        float64

	// RepetitionPenalty makes tokens less likely that the model sees in the text, the
	// prompt included: positive logits are divided by it, others multiplied (Keskar et
	// al., 2019). Above 1 texts repeat themselves less; 0 and 1: the logits stay.
	RepetitionPenalty float64

	// Seed selects the random numbers. On devices with equal kernels, the same options
	// give the same text.
	Seed uint64

	Stop []string // texts before the first of which the text ends

	// Context is the tokens that the model sees at once; 0 means data.context, or of an
	// imported model before its first step model.context.
	Context int

	// Slide goes on when the context is full: the model then reads the later half again,
	// and so forgets the rest. A prompt may then be longer than the context.
	Slide bool
}

// Piece is a piece of a text that is generated: whole characters.
type Piece struct {
	Text   string  `json:"text"`
	Tokens []int32 `json:"tokens"` // that have come since the piece before
}

// Why a text ended: the values of Generation.End.
const (
	EndTokens    = "tokens"      // it has GenerateOptions.Tokens
	EndContext   = "context"     // the context is full
	EndStop      = "stop"        // one of GenerateOptions.Stop came
	EndOfText    = "end_of_text" // a token came that ends a text: see [datasets.Info.Ends]
	EndCancelled = "cancelled"   // the call was cancelled, or its emit failed
)

// Generation describes a text that was generated.
type Generation struct {
	PromptTokens  int             `json:"prompt_tokens"`
	Tokens        int             `json:"tokens"` // that were generated, the one of EndOfText included
	End           string          `json:"end"`
	PromptSeconds float64         `json:"prompt_seconds"` // until the first token was there
	Seconds       float64         `json:"seconds"`        // for the tokens after it
	Weights       checkpoint.Used `json:"weights"`
}

// Text is a text under way.
type Text struct {
	opt  GenerateOptions
	emit func(Piece) error
	size infer.GeneratorOptions
	tok  tokenizer.Tokenizer
	ends []uint32 // tokens that end the text

	stream *tokenizer.Stream
	recent []int32 // the newest tokens of the text, at most size.Context and the next one
	length int     // tokens of the text, the prompt included
	piece  Piece
	res    Generation
}

// NewText checks the options, and reads the prompt. emit is given each piece of the text
// as soon as it is there; its error ends the text.
func (m *Model) NewText(ctx context.Context, o GenerateOptions, emit func(Piece) error) (*Text, error) {
	if err := cmp.Or(m.Speaks(), o.check()); err != nil {
		return nil, err
	}
	var begin []uint32
	if m.Info.Chat != nil && o.Messages == nil { // a template writes its own
		begin = m.Info.Chat.Begin
	}
	ends, stops := m.Info.Ends(ctx)
	stops = append(stops, o.Stop...)
	if o.Messages != nil {
		prompt, ids, texts, err := m.Info.Prompt(ctx, o.Messages)
		if ctx.Err() != nil { // the messages may well be good
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: messages: %w", errs.ErrOptions, err)
		}
		o.Prompt, ends, stops = prompt, append(ends, ids...), append(stops, texts...)
	}
	tok := m.Info.Tokenizer
	t := &Text{opt: o, emit: emit, size: m.Generator(), tok: tok, ends: ends, stream: tokenizer.NewStream(tok, stops...)}
	if o.Context > 0 {
		t.size.Context = o.Context
	}
	return t, t.encode(ctx, begin)
}

// SizeOf is the size of the caches of texts, whose contexts are equal.
func SizeOf(texts []*Text) infer.GeneratorOptions {
	size := texts[0].size
	size.Texts = len(texts)
	return size
}

// Result describes the text so far.
func (t *Text) Result() Generation { return t.res }

// Ended words the error with which a text ended, which says what to do.
func (t *Text) Ended(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*device.NonFiniteError](err); ok && e.Node != nil && e.Node.Layer != nil && e.Node.Layer.Type == models.SampleLayer { // what it reads is not finite
		err = errs.With(errors.New("what the model gives for the next token is not finite"), err)
	}
	switch {
	case errors.Is(err, device.ErrNonFinite), errors.Is(err, safetensors.ErrFinite) && !osfile.Advised(err):
		err = notFinite(err)
	}
	if cause := errs.Ended(ctx, err); cause != nil {
		err = errs.With(fmt.Errorf("%w after %d tokens: %w", errs.ErrStopped, t.res.Tokens, cause), cause)
	}
	return Kept(err)
}

// The bounds of GenerateOptions.RepetitionPenalty, with which logits stay finite.
const (
	LeastPenalty = 0.01
	MostPenalty  = 100
)

// maxContext bounds GenerateOptions.Context.
const maxContext = 1 << 24

// check refuses options that cannot be used.
func (o *GenerateOptions) check() error {
	switch {
	case o.Tokens < 0:
		return fmt.Errorf("%w: %d tokens: give the most tokens to generate, or 0 for no limit", errs.ErrOptions, o.Tokens)
	case o.Context < 0 || o.Context > maxContext:
		return fmt.Errorf("%w: a context of %d tokens: give a number from 1 to %d, or 0 for the model's own", errs.ErrOptions, o.Context, maxContext)
	case !(o.Temperature >= 0) || o.Temperature > math.MaxFloat32:
		return fmt.Errorf("%w: temperature %v: give a number from 0 to %.2g; 0 takes the likeliest token", errs.ErrOptions, o.Temperature, math.MaxFloat32)
	case o.TopK < 0 || o.TopK > math.MaxInt32:
		return fmt.Errorf("%w: top-k %d: give the number of likeliest tokens to draw from, or 0 for all", errs.ErrOptions, o.TopK)
	case !(o.TopP >= 0 && o.TopP <= 1):
		return fmt.Errorf("%w: top-p %v: give a number above 0, and at most 1", errs.ErrOptions, o.TopP)
	case !(o.RepetitionPenalty == 0 || o.RepetitionPenalty >= LeastPenalty && o.RepetitionPenalty <= MostPenalty):
		return fmt.Errorf("%w: a repetition penalty of %v: give a number from %v to %v; 1 is none", errs.ErrOptions, o.RepetitionPenalty, LeastPenalty, MostPenalty)
	case o.Messages != nil && o.Prompt != "":
		return fmt.Errorf("%w: both a prompt and messages are given: give one of them", errs.ErrOptions)
	case slices.Contains(o.Stop, ""):
		return fmt.Errorf("%w: a text to stop at is empty: leave it out", errs.ErrOptions)
	}
	return nil
}

// sampling is the options of the devices.
func (o *GenerateOptions) sampling() infer.Sampling {
	return infer.Sampling{Temperature: o.Temperature, TopK: o.TopK, TopP: cmp.Or(o.TopP, 1), Seed: o.Seed, RepetitionPenalty: o.RepetitionPenalty}
}

// encode begins the text with the prompt, and lets go of it: only its last tokens are read.
// Before them come the tokens with which the model's texts begin, unless the prompt has them.
func (t *Text) encode(ctx context.Context, begin []uint32) error {
	last, n, err := tokenizer.End(ctx, t.tok, t.opt.Prompt, t.size.Context+1)
	t.opt.Prompt = ""
	if n == len(last) && (n < len(begin) || !slices.Equal(last[:len(begin)], begin)) { // else the beginning is forgotten
		last, n = slices.Concat(begin, last), n+len(begin)
		last = last[max(0, n-t.size.Context-1):]
	}
	switch {
	case ctx.Err() != nil: // the prompt may well be good
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: prompt: %w", errs.ErrOptions, err)
	case n == 0:
		return fmt.Errorf("%w: the prompt is empty: give it at least one token", errs.ErrOptions)
	case n > t.size.Context && !t.opt.Slide:
		return &LongPromptError{Tokens: n, Context: t.size.Context}
	}
	t.length, t.res.PromptTokens = n, n
	for _, id := range last {
		t.recent = append(t.recent, int32(id))
	}
	return nil
}

// reader reads tokens of a text, and gives the next: see [infer.Generator].
type reader interface {
	Append(ctx context.Context, tokens []int32, number int) (next int32, err error)
	Room() int
	Forget()
}

// run generates until the text ends.
func (t *Text) run(ctx context.Context, g reader) error {
	began := time.Now()
	t.res.End = EndCancelled
	for next := t.recent; ; next = t.recent[len(t.recent)-1:] {
		if len(next) > g.Room() {
			if !t.opt.Slide {
				t.res.End = EndContext
				break
			}
			g.Forget()
			next = t.recent[max(0, len(t.recent)-max(1, t.size.Context/2)):]
		}
		token, err := g.Append(ctx, next, t.length)
		if err != nil && ctx.Err() != nil { // the text so far is good
			return errors.Join(err, t.end())
		}
		if err != nil {
			return err
		}
		t.time(began)
		if over, err := t.add(token); over || err != nil {
			return err
		}
	}
	return t.end()
}

// time notes the times so far. t.res has not counted the newest token.
func (t *Text) time(began time.Time) {
	now := time.Since(began).Seconds()
	if t.res.Tokens == 0 {
		t.res.PromptSeconds = now
	}
	t.res.Seconds = now - t.res.PromptSeconds
}

// add takes a token. over says that the text ends with it.
func (t *Text) add(token int32) (over bool, err error) {
	if len(t.recent) > t.size.Context {
		t.recent = append(t.recent[:0], t.recent[1:]...)
	}
	t.recent, t.piece.Tokens = append(t.recent, token), append(t.piece.Tokens, token)
	t.length++
	t.res.Tokens++
	end := ""
	if slices.Contains(t.ends, uint32(token)) {
		end = EndOfText
	} else {
		text, ended := t.stream.Add(nil, token)
		t.piece.Text += string(text)
		switch {
		case ended:
			end = EndStop
		case t.res.Tokens == t.opt.Tokens:
			end = EndTokens
		}
	}
	if end == "" {
		return false, t.give()
	}
	t.res.End = end
	if end == EndStop {
		return true, t.give()
	}
	return true, t.end()
}

// end hands over what is held back.
func (t *Text) end() error {
	t.piece.Text += string(t.stream.End(nil))
	return t.give()
}

// give hands the piece over, if it has text.
func (t *Text) give() error {
	if t.piece.Text == "" {
		return nil
	}
	p := t.piece
	t.piece = Piece{}
	return t.emit(p)
}
