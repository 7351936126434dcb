package command

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-ml/berth/internal/testall"
)

// drills DEVICES[/MEMORY] N… POLICY RUN trains a few steps, once for each way in which
// the Nth operation of a kind can go wrong on cpu:1, with that value of
// devices.on_device_loss. MEMORY is that of --device-memory. Each run must end with the
// weights of RUN: by itself where the policy is replan or one copy has failed, else once
// it is resumed, or trained again where nothing was saved. Without TEST_ALL, only some of
// the ways are tried.
func drills(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: drills DEVICES[/MEMORY] N… POLICY RUN")
	}
	policy, whole := args[len(args)-2], args[len(args)-1]
	tried := 0
	for _, n := range args[1 : len(args)-2] {
		for _, op := range []string{"launch", "copy-in", "copy-out", "peer", "alloc", "compile"} {
			for _, kind := range []string{"fail", "lost", "oom", "hang"} {
				if kind == "hang" && (op == "alloc" || op == "compile") {
					continue
				}
				if tried++; testall.Wanted() || tried%19 == 0 {
					drill(ts, args[0], fmt.Sprintf("cpu:1 %s %s %s", op, n, kind), policy, whole)
				}
			}
		}
	}
}

// repeated matches faults that cost a copy alone: it is repeated.
var repeated = regexp.MustCompile("^[^ ]+ (copy-in|copy-out|peer) [0-9]+ (fail|oom)$")

// drill is one of drills.
func drill(ts *testscript.TestScript, devices, fault, policy, whole string) {
	run := "drill"
	devices, memory, limited := strings.Cut(devices, "/")
	ts.Check(os.RemoveAll(ts.MkAbs(run)))
	train := []string{
		"train", "digits", "--run", run, "--quiet", "--devices", devices, "--max-steps", "9",
		"--set", "checkpoint.every=2", "--set", "devices.on_device_loss=" + policy,
	}
	if strings.HasSuffix(fault, " hang") { // other operations must not seem to hang where the machine is slow
		train = append(train, "--set", "devices.timeout=300ms")
	}
	if limited {
		train = append(train, "--device-memory", memory)
	}
	err := ts.Exec("trainer", append(slices.Clone(train), "--fault", fault)...)
	said := strings.TrimSpace(ts.ReadFile("stderr"))
	if strings.Contains(said, "\n") {
		ts.Fatalf("%s: more than one line", fault)
	}
	if code := codeOf(ts, err); code != 0 {
		_, command, found := strings.Cut(said, "continue with: trainer ")
		switch {
		case policy != "stop" || code != 1 || repeated.MatchString(fault):
			ts.Fatalf("%s: exit code %d", fault, code)
		case found:
			ts.Check(ts.Exec("trainer", append(strings.Fields(command), "--max-steps", "9", "--quiet")...))
		case strings.HasSuffix(said, "begin again with the same command"):
			ts.Check(ts.Exec("trainer", train...))
		default:
			ts.Fatalf("%s: no command goes on", fault)
		}
	}
	sameRuns(ts, false, []string{run, whole})
}
