package command

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/berth-ml/berth"
)

// generated prints texts that are generated at once: the first one as it comes, the others when all have
// ended, each below the number of its prompt. As JSON, all pieces are lines as they come.
type generated struct {
	out   io.Writer
	lines *json.Encoder // nil: texts
	texts []strings.Builder
	first string // the newest piece of the first text
}

// newGenerated has no texts yet.
func newGenerated(out io.Writer, texts int, asJSON bool) *generated {
	p := &generated{out: out, texts: make([]strings.Builder, texts)}
	if asJSON {
		p.lines = json.NewEncoder(out)
	}
	return p
}

// ofPrompt is a line of JSON with the number of its prompt.
type ofPrompt[T any] struct {
	Prompt int `json:"prompt"` // from 1 on
	Line   T   `json:"-"`
}

// MarshalJSON puts the number before the line's own fields.
func (x ofPrompt[T]) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(x.Line)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"prompt":%d,%s`, x.Prompt, b[1:]), nil
}

// line prints a line of JSON. One text's have no number.
func line[T any](p *generated, text int, x T) error {
	if len(p.texts) == 1 {
		return p.lines.Encode(x)
	}
	return p.lines.Encode(ofPrompt[T]{text + 1, x})
}

// piece prints a piece, or keeps it.
func (p *generated) piece(text int, x berth.Piece) error {
	if p.lines != nil {
		return line(p, text, x)
	}
	if text > 0 {
		p.texts[text].WriteString(x.Text)
		return nil
	}
	if p.first == "" {
		if err := p.title(0); err != nil {
			return err
		}
	}
	p.first = x.Text
	_, err := io.WriteString(p.out, x.Text)
	return err
}

// title prints the number of a prompt, if there are several.
func (p *generated) title(text int) (err error) {
	if len(p.texts) > 1 {
		_, err = fmt.Fprintf(p.out, "==> prompt %d <==\n", text+1)
	}
	return err
}

// end ends the first text's last line, and prints the other texts.
func (p *generated) end() error {
	if p.lines != nil {
		return nil
	}
	if p.first == "" && len(p.texts) > 1 {
		if err := p.title(0); err != nil {
			return err
		}
	}
	if err := p.endLine(p.first); err != nil {
		return err
	}
	for i := 1; i < len(p.texts); i++ {
		if _, err := io.WriteString(p.out, "\n"); err != nil {
			return err
		}
		if err := p.title(i); err != nil {
			return err
		}
		text := p.texts[i].String()
		if _, err := io.WriteString(p.out, text); err != nil {
			return err
		}
		if err := p.endLine(text); err != nil {
			return err
		}
	}
	return nil
}

// endLine ends the line of a text, unless it has ended or there is none.
func (p *generated) endLine(text string) (err error) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		_, err = io.WriteString(p.out, "\n")
	}
	return err
}

// results prints what became of the texts, as JSON.
func (p *generated) results(all []berth.Generation) error {
	for i, res := range all {
		if err := line(p, i, res); err != nil {
			return err
		}
	}
	return nil
}
