package berth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/tokenizer"
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency"
)

// GenerateOptions describes a text to generate. The zero value of the others, with a
// Prompt, takes the likeliest token each time, until the model's context is full.
type GenerateOptions struct {
	Prompt string // the beginning, of at least one token
	Tokens int    // most tokens to generate; 0: no limit

	// A token is drawn by its probability. Temperature divides the logits before the
	// softmax: below 1 likely tokens become likelier, and 0 takes the likeliest. TopK
	// leaves that many of the likeliest tokens (0: all). TopP leaves likely tokens until
	// their probabilities sum to it (0 and 1: all).
	Temperature float64
	TopK        int
	TopP        float64

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
	EndOfText    = "end_of_text" // the token came that separates documents
	EndCancelled = "cancelled"   // the call was cancelled, or its emit failed
)

// Generation describes a text that was generated.
type Generation struct {
	PromptTokens  int     `json:"prompt_tokens"`
	Tokens        int     `json:"tokens"` // that were generated, the one of EndOfText included
	End           string  `json:"end"`
	PromptSeconds float64 `json:"prompt_seconds"` // until the first token was there
	Seconds       float64 `json:"seconds"`        // for the tokens after it
	Weights       Used    `json:"weights"`
}

// OpenGenerator is [OpenTrained] for Generate: memory is planned for that, and a
// percentage of memory is of what it takes. Eval and Predict may then need more.
func OpenGenerator(ctx context.Context, c *configs.Config, w Weights, faults ...fault.Fault) (*Trained, error) {
	return openTrained(ctx, c, w, openedFor{speech: true}, faults)
}

// OpenGenerator is the function OpenGenerator on these devices, as Open is.
func (d *Devices) OpenGenerator(ctx context.Context, c *configs.Config, w Weights) (*Trained, error) {
	if d.pool == nil {
		return nil, errNoDevices
	}
	return openTrained(ctx, c, w, openedFor{shared: d.pool, speech: true}, nil)
}

// Generate is [Trained.Generate] with a checkpoint of this run's model, or a file of
// weights.
func (r *Run) Generate(ctx context.Context, w Weights, o GenerateOptions, emit func(Piece) error) (Generation, error) {
	t, err := r.trained(ctx, w)
	if err != nil {
		return Generation{}, err
	}
	return t.Generate(ctx, o, emit)
}

// Generate continues a text with a model of texts, and hands over each piece as soon as
// it is there. emit's error ends it. When ctx is cancelled it ends with the operation under
// way, and ErrStopped; text that was held back, since a Stop might have begun, is handed
// over before.
func (t *Trained) Generate(ctx context.Context, o GenerateOptions, emit func(Piece) error) (res Generation, err error) {
	defer func() { err = errors.Join(err, t.release()) }()
	if err := t.setup.usable(); err != nil {
		return res, err
	}
	s, err := t.newSpeech(ctx, o, emit)
	if err != nil {
		return res, err
	}
	leave, err := t.setup.enter()
	if err != nil {
		return res, err
	}
	defer leave()
	t.losses = nil
	err = t.onceWith(ctx, s.needs, func(rt *executor.Runtime) error { return t.speak(ctx, rt, s) })
	t.ended = err == nil
	s.res.Weights = t.used
	return s.res, spoken(ctx, err, s.res.Tokens)
}

// spoken words the error of a text that ended after so many tokens.
func spoken(ctx context.Context, err error, tokens int) error {
	if errors.Is(err, ErrNonFinite) {
		err = fmt.Errorf("%w: use other weights (--checkpoint, --best)", err)
	}
	if cause := errs.Ended(ctx, err); cause != nil {
		err = errs.With(fmt.Errorf("%w after %d tokens: %w", ErrStopped, tokens, cause), cause)
	}
	return kept(err)
}

// speak loads the model, and generates.
func (t *Trained) speak(ctx context.Context, rt *executor.Runtime, s *speech) (err error) {
	g, err := infer.NewGenerator(ctx, rt, s.model, s.size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err = errors.Join(t.load(ctx, g), t.loaded()); err != nil {
		return err
	}
	if err := g.Choose(s.opt.sampling()); err != nil {
		return err
	}
	return s.run(ctx, g)
}

// speech is a text under way.
type speech struct {
	opt   GenerateOptions
	emit  func(Piece) error
	model infer.Model
	size  infer.GeneratorOptions
	needs residency.TenantOptions
	tok   tokenizer.Tokenizer

	text   *tokenizer.Stream
	recent []int32 // the newest tokens of the text, at most size.Context and the next one
	length int     // tokens of the text, the prompt included
	piece  Piece
	res    Generation
}

// newSpeech is beginSpeech with a plan.
func (t *Trained) newSpeech(ctx context.Context, o GenerateOptions, emit func(Piece) error) (*speech, error) {
	s, err := t.beginSpeech(ctx, o, emit)
	if err != nil {
		return nil, err
	}
	set := t.setup
	plan, err := infer.GeneratorPlan(s.model, s.size, stopOf(ctx))
	if err != nil {
		return nil, set.placed(err)
	}
	s.needs.Floors, s.needs.Peaks = set.memoryOf(plan, groups{})
	s.needs.LargestBytes = largestOf(plan.Graph)
	return s, nil
}

// beginSpeech checks the options, and reads the prompt.
func (t *Trained) beginSpeech(ctx context.Context, o GenerateOptions, emit func(Piece) error) (*speech, error) {
	set := t.setup
	if err := cmp.Or(set.speaks(), o.check()); err != nil {
		return nil, err
	}
	tok := set.info.Tokenizer
	s := &speech{opt: o, emit: emit, model: set.model(), size: set.generator(), tok: tok, text: tokenizer.NewStream(tok, o.Stop...)}
	if o.Context > 0 {
		s.size.Context = o.Context
	}
	return s, s.encode(ctx)
}

// errContext refuses a context that a service does not have.
func errContext(asked, has int) error {
	return fmt.Errorf("%w: a context of %d tokens: a service generates with %d; leave the context out", ErrOptions, asked, has)
}

// maxContext bounds GenerateOptions.Context.
const maxContext = 1 << 24

// check refuses options that cannot be used.
func (o *GenerateOptions) check() error {
	switch {
	case o.Tokens < 0:
		return fmt.Errorf("%w: %d tokens: give the most tokens to generate, or 0 for no limit", ErrOptions, o.Tokens)
	case o.Context < 0 || o.Context > maxContext:
		return fmt.Errorf("%w: a context of %d tokens: give a number from 1 to %d, or 0 for the model's own", ErrOptions, o.Context, maxContext)
	case !(o.Temperature >= 0) || o.Temperature > math.MaxFloat32:
		return fmt.Errorf("%w: temperature %v: give a number of at least 0; 0 takes the likeliest token", ErrOptions, o.Temperature)
	case o.TopK < 0 || o.TopK > math.MaxInt32:
		return fmt.Errorf("%w: top-k %d: give the number of likeliest tokens to draw from, or 0 for all", ErrOptions, o.TopK)
	case !(o.TopP >= 0 && o.TopP <= 1):
		return fmt.Errorf("%w: top-p %v: give a number above 0, and at most 1", ErrOptions, o.TopP)
	case slices.Contains(o.Stop, ""):
		return fmt.Errorf("%w: a text to stop at is empty: leave it out", ErrOptions)
	}
	return nil
}

// sampling is the options of the devices.
func (o *GenerateOptions) sampling() infer.Sampling {
	s := infer.Sampling{Temperature: o.Temperature, TopK: o.TopK, TopP: o.TopP, Seed: o.Seed}
	if s.TopP == 0 {
		s.TopP = 1
	}
	return s
}

// encode begins the text with the prompt.
func (s *speech) encode(ctx context.Context) error {
	ids, err := s.tok.Encode(ctx, nil, []byte(s.opt.Prompt))
	switch {
	case ctx.Err() != nil: // the prompt may well be good
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%w: prompt: %w", ErrOptions, err)
	case len(ids) == 0:
		return fmt.Errorf("%w: the prompt is empty: give it at least one token", ErrOptions)
	case len(ids) > s.size.Context && !s.opt.Slide:
		return fmt.Errorf("%w: the prompt has %d tokens, and the context %d: shorten it, or let the context slide (--slide), which reads the end of the prompt", ErrOptions, len(ids), s.size.Context)
	}
	s.length, s.res.PromptTokens = len(ids), len(ids)
	for _, id := range ids[max(0, len(ids)-s.size.Context-1):] {
		s.recent = append(s.recent, int32(id))
	}
	return nil
}

// reader reads tokens of a text, and gives the next: an [infer.Generator] does.
type reader interface {
	Append(ctx context.Context, tokens []int32, number int) (next int32, err error)
	Room() int
	Forget()
}

// run generates until the text ends.
func (s *speech) run(ctx context.Context, g reader) error {
	began := time.Now()
	s.res.End = EndCancelled
	for next := s.recent; ; next = s.recent[len(s.recent)-1:] {
		if len(next) > g.Room() {
			if !s.opt.Slide {
				s.res.End = EndContext
				break
			}
			g.Forget()
			next = s.recent[max(0, len(s.recent)-max(1, s.size.Context/2)):]
		}
		token, err := g.Append(ctx, next, s.length)
		if err != nil && ctx.Err() != nil { // the text so far is good
			return errors.Join(err, s.end())
		}
		if err != nil {
			return err
		}
		s.time(began)
		if over, err := s.add(token); over || err != nil {
			return err
		}
	}
	return s.end()
}

// time notes the times so far. s.res has not counted the newest token.
func (s *speech) time(began time.Time) {
	t := time.Since(began).Seconds()
	if s.res.Tokens == 0 {
		s.res.PromptSeconds = t
	}
	s.res.Seconds = t - s.res.PromptSeconds
}

// add takes a token. over says that the text ends with it.
func (s *speech) add(token int32) (over bool, err error) {
	if len(s.recent) > s.size.Context {
		s.recent = append(s.recent[:0], s.recent[1:]...)
	}
	s.recent, s.piece.Tokens = append(s.recent, token), append(s.piece.Tokens, token)
	s.length++
	s.res.Tokens++
	end := ""
	if id, ok := s.tok.EndOfText(); ok && uint32(token) == id {
		end = EndOfText
	} else {
		text, ended := s.text.Add(nil, token)
		s.piece.Text += string(text)
		switch {
		case ended:
			end = EndStop
		case s.res.Tokens == s.opt.Tokens:
			end = EndTokens
		}
	}
	if end == "" {
		return false, s.give()
	}
	s.res.End = end
	if end == EndStop {
		return true, s.give()
	}
	return true, s.end()
}

// end hands over what is held back.
func (s *speech) end() error {
	s.piece.Text += string(s.text.End(nil))
	return s.give()
}

// give hands the piece over, if it has text.
func (s *speech) give() error {
	if s.piece.Text == "" {
		return nil
	}
	p := s.piece
	s.piece = Piece{}
	return s.emit(p)
}
