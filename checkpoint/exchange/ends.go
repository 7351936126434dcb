package exchange

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-ml/berth/checkpoint/pretrained"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/datasets/chat"
	"github.com/berth-ml/berth/datasets/tokenizer"
)

// exportTexts gives a model what its data's description says about texts: the tokens around them, the chat
// template and the special tokens.
func exportTexts(ctx context.Context, m *pretrained.Model, info *datasets.Info, t *tokenizer.BPE) error {
	if end, ok := t.EndOfText(); ok {
		m.Config.EndOfText = &end
	}
	if begin, ok := t.BeginOfText(); ok && m.Config.Family != pretrained.GPT2 {
		m.Config.BeginOfText = &begin
	}
	if info.Chat == nil {
		return nil
	}
	f, missing, err := ownTokens(ctx, info.Chat, t)
	if err != nil {
		return err
	}
	m.Chat = f
	for key, to := range map[string]**uint32{"bos_token": &m.Config.BeginOfText, "eos_token": &m.Config.EndOfText} {
		if text := f.Special[key]; text != "" {
			ids, err := t.EncodeRest(ctx, nil, []byte(text))
			if err != nil {
				return err
			}
			*to = &ids[0]
		}
	}
	// A token that the tokenizer lacks would be added to it by transformers, behind the model's last row. The
	// template has its text instead.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(missing))) {
		if f.Template != "" && isName.MatchString(name) {
			f.Template = fmt.Sprintf("{%% set %s = \"%s\" %%}\n%s", name, stringOf.Replace(missing[name]), f.Template)
		}
	}
	return nil
}

// ownTokens is the format without the special tokens that the tokenizer has no token for, and those.
func ownTokens(ctx context.Context, f *chat.Format, t *tokenizer.BPE) (_ *chat.Format, missing map[string]string, err error) {
	own := *f
	own.Special, missing = map[string]string{}, map[string]string{}
	for name, text := range f.Special {
		ids, err := t.EncodeRest(ctx, nil, []byte(text))
		switch {
		case err != nil:
			return nil, nil, err
		case len(ids) == 1:
			own.Special[name] = text
		default:
			missing[name] = text
		}
	}
	return &own, missing, nil
}

// isName is a name that a template can have. Other keys of tokenizer_config.json are no variables.
var isName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// stringOf escapes a text within a string of a template.
var stringOf = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`)
