package schedule

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/berth-ml/berth/internal/units"
)

// Parse reads what [Schedule.String] prints; blank lines and lines that begin with
// "#" are left out. An error begins with the number of its line. Parse checks the
// form only; call [Schedule.Validate] for the rest.
func Parse(text string) (Schedule, error) {
	p := parser{header: true}
	if err := p.parse(text); err != nil {
		return Schedule{}, err
	}
	return p.s, nil
}

// Read is Parse and Validate. An error is one line, and begins with the number of
// the line that it is about.
func Read(text string) (Schedule, error) {
	p := parser{header: true}
	if err := p.parse(text); err != nil {
		return Schedule{}, err
	}
	err := p.s.Validate()
	if e, ok := errors.AsType[*InvalidError](err); ok {
		return Schedule{}, fmt.Errorf("line %d: %w: %v %s", p.lines[e.worker()], ErrInvalid, e.Action, e.Why)
	}
	if err != nil {
		return Schedule{}, fmt.Errorf("line %d: %w", p.first, err)
	}
	return p.s, nil
}

// parse reads all lines of a text.
func (p *parser) parse(text string) error {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if !utf8.ValidString(line) { // not even in a comment: configs keep the text
			return fmt.Errorf("line %d: %w: it is not UTF-8; save the file as UTF-8", i+1, ErrSyntax)
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(line, i+1); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if p.header {
		return fmt.Errorf("line 1: %w: the first line must be %q", ErrSyntax, headerForm)
	}
	return p.complete()
}

const headerForm = "schedule NAME stages N microbatches N [replicas N] [workers N]"

// parser reads a schedule line by line.
type parser struct {
	s      Schedule
	header bool // it comes next
	first  int  // number of the header's line
	plain  bool // worker i has stage i alone
	rows   int
	lines  []int // by row: its number
}

func (p *parser) line(line string, number int) error {
	if p.header {
		p.header, p.first = false, number
		return p.parseHeader(line)
	}
	if len(p.s.Rows) == p.rows {
		return fmt.Errorf("%w: more lines than the header's %d workers: write one line for each worker", ErrSyntax, p.rows)
	}
	p.lines = append(p.lines, number)
	return p.parseRow(line)
}

// complete checks that there is a row for each worker, with all the stages.
func (p *parser) complete() error {
	if n := len(p.s.Rows); n != p.rows {
		return fmt.Errorf("line %d: %w: it has lines for %d of %s; write one line for each worker", p.first, ErrSyntax, n, units.Count(p.rows, "worker"))
	}
	for i, w := range p.s.Workers {
		if w == nowhere {
			return fmt.Errorf("line %d: %w: no worker has stage %d%s; list it in the parentheses of a worker's line", p.first, ErrSyntax, i%p.s.Stages, ofReplica(i/p.s.Stages))
		}
	}
	return nil
}

// nowhere is the worker of a stage that no line has listed yet.
const nowhere = -1

func (p *parser) parseHeader(line string) error {
	f := strings.Fields(line)
	wrong := fmt.Errorf("%w: the first line is %q, expected %q", ErrSyntax, shown(line), headerForm)
	if len(f) < 6 || len(f)%2 != 0 || f[0] != "schedule" || f[2] != "stages" || f[4] != "microbatches" {
		return wrong
	}
	p.s.Name, p.s.Replicas, p.rows = f[1], 1, nowhere
	numbers := map[string]*int{"stages": &p.s.Stages, "microbatches": &p.s.Microbatches, "replicas": &p.s.Replicas, "workers": &p.rows}
	for i := 2; i < len(f); i += 2 {
		to := numbers[f[i]]
		if to == nil {
			return wrong
		}
		delete(numbers, f[i])
		var err error
		if *to, err = number(f[i+1]); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrSyntax, f[i], err)
		}
	}
	if p.s.Stages > mostCells || p.s.Replicas > mostCells/max(1, p.s.Stages) || p.rows > mostCells {
		return fmt.Errorf("%w: stages times replicas, or workers, are more than %d", ErrSyntax, mostCells)
	}
	p.s.Workers = upTo(p.s.Stages * p.s.Replicas)
	if p.plain = p.rows == nowhere; p.plain {
		p.rows = len(p.s.Workers)
		return nil
	}
	for i := range p.s.Workers {
		p.s.Workers[i] = nowhere
	}
	return nil
}

func (p *parser) parseRow(line string) error {
	worker := len(p.s.Rows)
	label, cells, ok := strings.Cut(line, ":")
	head, stages, listed := strings.Cut(label, "(")
	if !ok || strings.TrimSpace(head) != fmt.Sprint(worker) || listed == p.plain {
		return fmt.Errorf("%w: the line of worker %d is %q; begin it with %q", ErrSyntax, worker, shown(line), p.beginning(worker))
	}
	if listed {
		if err := p.list(worker, stages); err != nil {
			return err
		}
	}
	var row []Action
	for _, c := range strings.Fields(cells) {
		if c == idle {
			continue
		}
		a, err := ParseAction(c)
		if err != nil {
			return err
		}
		row = append(row, a)
	}
	p.s.Rows = append(p.s.Rows, row)
	return nil
}

// beginning says how a line must begin.
func (p *parser) beginning(worker int) string {
	if p.plain {
		return fmt.Sprintf("%d:", worker)
	}
	return fmt.Sprintf("%d (STAGE …):", worker)
}

// list records a worker's stages, as "0 2)" lists them.
func (p *parser) list(worker int, stages string) error {
	inside, rest, closed := strings.Cut(stages, ")")
	if !closed || strings.TrimSpace(rest) != "" {
		return fmt.Errorf("%w: %q does not end the list of stages with \"):\"", ErrSyntax, shown("("+stages))
	}
	for _, f := range strings.Fields(inside) {
		digits, replica, err := cutReplica(f)
		if err != nil {
			return fmt.Errorf("%w: replica of stage %q: %w", ErrSyntax, shown(f), err)
		}
		stage, err := number(digits)
		switch {
		case err != nil:
			return fmt.Errorf("%w: stage: %w", ErrSyntax, err)
		case stage >= p.s.Stages || replica >= p.s.Replicas:
			return fmt.Errorf("%w: there is no stage %s among %s and %s", ErrSyntax, f, units.Count(p.s.Stages, "stage"), units.Count(p.s.Replicas, "replica"))
		}
		if w := &p.s.Workers[replica*p.s.Stages+stage]; *w != nowhere {
			return fmt.Errorf("%w: stage %s is listed for worker %d and again for worker %d; list it once", ErrSyntax, f, *w, worker)
		} else {
			*w = worker
		}
	}
	return nil
}
