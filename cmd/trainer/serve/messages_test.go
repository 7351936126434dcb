package serve_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/configs"
)

// talker is a run on conversations, with a chat template.
func talker(t testing.TB, template string, context string) run {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"chats.jsonl": strings.Repeat(`{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`+"\n", 8),
		"chat.jinja":  template,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := configs.Parse("test.yaml", []byte("data: {source: text, path: '"+filepath.Join(dir, "chats.jsonl")+"', field: messages, tokenizer: bytes, chat_template: '"+
		filepath.Join(dir, "chat.jinja")+"', context: "+context+"}\nmodel: {preset: llama, num_hidden_layers: 1, hidden_size: 8, num_attention_heads: 2}\ntrain: {epochs: 1, batch: 4}\n"),
		configs.Overlay{Set: []string{"devices.use=cpu"}})
	if err != nil {
		t.Fatal(err)
	}
	x := run{c, filepath.Join(dir, "run")}
	x.train(t, berth.TrainOptions{})
	return x
}

const plainTemplate = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"

// Messages with a mistake are refused with its place, and so are more than the model can read, or than
// the memory of a request has room for.
func TestMessages(t *testing.T) {
	x := talker(t, plainTemplate, "64")
	_, c := open(t, x, serve.OpenOptions{})
	_, tight := open(t, x, serve.OpenOptions{Limits: serve.Limits{Memory: 250 << 10, Share: 100, Tokens: 10}})
	many := func(n int, one string) string {
		return `{"messages": [` + strings.Repeat(one+",", n-1) + one + `]}`
	}
	const tiny = `{"role":"a","content":""}`
	for _, x := range []struct {
		c                 *client
		body              string
		status            int
		kind, where, want string
	}{
		{c, `{"messages": [{"role": "user", "content": "a"}], "tokens": 2}`, 200, "", "", ""},
		{c, `{"prompt": "ten", "messages": null, "tokens": 2}`, 200, "", "", ""},
		{c, `{"messages": [{"role": "user", "text": "hello"}]}`, 400, "input", "messages[0].text", "there is no such key"},
		{c, `{"messages": [{"role": "user"}]}`, 400, "input", "messages[0].content", "it is missing"},
		{c, `{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": null}]}`, 400, "input", "messages[1].content", "this is null: send a text"},
		{c, `{"messages": [{"role": "user", "content": 3}]}`, 400, "input", "messages[0].content", "this is a number: send a text"},
		{c, `{"messages": [{"role": "user", "content": []}]}`, 400, "input", "messages[0].content", "this is a list: send a text"},
		{c, many(64, tiny), 400, "input", "messages", "but the context has 64"},
		{c, many(65, tiny), 413, "limit", "messages", "there are more than 64, and the model reads as many tokens at once"},
		{c, many(1<<17, `{}`), 400, "input", "messages[0].role", "missing or empty"},
		{tight, many(2, tiny), 200, "", "", ""},
		{tight, many(60, tiny), 413, "limit", "", "a request may take"},
	} {
		code, text, _ := x.c.do(t.Context(), http.MethodPost, "/generate", x.body)
		var got struct {
			Error struct{ Kind, Where, Message string }
		}
		err := json.Unmarshal([]byte(text), &got)
		if e := got.Error; err != nil || code != x.status || e.Kind != x.kind || e.Where != x.where || !strings.Contains(e.Message, x.want) {
			t.Errorf("%.60s: %d %s", x.body, code, text)
		}
	}

	for _, sample := range []string{`"` + strings.Repeat("a", 65) + `"`, "[" + strings.Repeat("1,", 64) + "1]"} {
		code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [`+sample+`]}`)
		if code != http.StatusBadRequest || !strings.Contains(text, `"message":"the conversation has 65 tokens, and the model reads 1 to 64 (data.context): shorten it"`) {
			t.Errorf("%s: %d %s", sample, code, text)
		}
	}

	// Bodies of messages that are refused leave the memory as it was.
	body := many(160_000, tiny)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 6 {
		if code, text, _ := c.do(t.Context(), http.MethodPost, "/generate", body); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %s", code, text)
		}
	}
	runtime.ReadMemStats(&after)
	if n := int(after.TotalAlloc-before.TotalAlloc) / 6 / len(body); n > 3 { // the body itself, and buffers
		t.Errorf("a request allocates %d times its body", n)
	}
}

// The time of a request holds for the rendering of its messages: it ends long before that would.
func TestTimeOfTemplate(t *testing.T) {
	slow := "{% if messages[0].content == 'slow' %}{% for i in range(1000) %}{% for j in range(900) %}{% endfor %}{% endfor %}{% endif %}" + plainTemplate
	_, c := open(t, talker(t, slow, "64"), serve.OpenOptions{})
	ask := func(timeout string, status int, want string) time.Duration {
		began := time.Now()
		code, text, _ := c.do(t.Context(), http.MethodPost, "/generate", `{"messages": [{"role": "user", "content": "slow"}]`+timeout+`}`)
		if code != status || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", timeout, code, text)
		}
		return time.Since(began)
	}
	whole := ask("", http.StatusBadRequest, "it takes more than")
	if cut := ask(`, "timeout_ms": 1`, http.StatusGatewayTimeout, "timeout_ms"); cut > whole/2 {
		t.Errorf("a request with 1 ms ends after %v, and one without after %v", cut, whole)
	}
}
