package command

import "testing"

func TestAnswerFormat(t *testing.T) {
	for _, c := range []struct{ given, file, want string }{
		{"", "", "jsonl"}, {"csv", "", "csv"}, {"", "ans.csv", "csv"}, {"", "a.b/ANS.CSV", "csv"},
		{"", "ans.jsonl", "jsonl"}, {"", "ans.json", "jsonl"}, {"", "runs.d/answers", "jsonl"}, {"csv", "answers", "csv"},
		{"", "/dev/stdout", "jsonl"}, {"csv", "ans.txt", "csv"}, {"csv", "ans.csv", "csv"},
		{"", "ans.txt", ""}, {"", "ans.csv.gz", ""}, {"jsonl", "ans.csv", ""}, {"csv", "ans.json", ""}, {"xml", "ans.csv", ""},
	} {
		got, err := answerFormat(c.given, c.file)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("--format %q --out %q: %q, %v, want %q", c.given, c.file, got, err, c.want)
		}
	}
}
