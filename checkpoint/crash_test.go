package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/memdir"
	"github.com/berth-ml/berth/internal/testall"
)

// The test binary is also the process that is killed.
const childEnv = "BERTH_CHECKPOINT_CHILD"

func TestMain(m *testing.M) {
	var err error
	switch path := os.Getenv(childEnv + "_PATH"); os.Getenv(childEnv) {
	case "":
		testall.Checks(12, 25)  // every step of the model test saves
		debug.SetGCPercent(400) // each test makes little, and all of it garbage
		os.Exit(memdir.Main(m).Run())
	case "save":
		err = childSaves(path)
	case "limit":
		err = childLimited(path)
	case "record":
		err = childRecorded(path)
	case "faulty":
		childFaulty(path)
	case "hold":
		err = childHolds(path)
	}
	if err != nil {
		fmt.Println("child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(mode, path string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+mode, childEnv+"_PATH="+path)
	c.Stderr = os.Stderr
	return c
}

// childSaves saves step after step, says which are done, and prunes.
func childSaves(path string) error {
	db, err := Open(path, small)
	if err != nil {
		return err
	}
	step := 0
	if s, skipped, err := db.Latest(ctxForever); err == nil {
		if len(skipped) > 0 {
			return fmt.Errorf("skipped %v", skipped)
		}
		step = s.Manifest.Step
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	for {
		step++
		m, src := at(step)
		if _, err := db.Save(ctxForever, m, src); err != nil {
			return err
		}
		fmt.Println("saved", step)
		if _, _, err := db.Prune(ctxForever, Keep{Last: 3}); err != nil {
			return err
		}
	}
}

// TestKill kills a saving process at random moments. What it said it had
// saved is there, whole, and the file needs no repair.
func TestKill(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "c.db")
	said := 0
	rounds, longest := testall.Or(5, 15), 120 // milliseconds
	for round := 0; round < rounds || said == 0 && round < 2*rounds; round++ {
		c := child("save", path)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(5+r.IntN(longest))*time.Millisecond, func() { c.Process.Kill() })
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if n, _ := fmt.Sscanf(sc.Text(), "saved %d", &said); n != 1 {
				t.Errorf("round %d: %s", round, sc.Text())
			}
		}
		// Windows does not tell a killed process from one that failed, which says why.
		if err := c.Wait(); err == nil || runtime.GOOS != "windows" && !strings.Contains(err.Error(), "killed") {
			t.Fatalf("round %d: the child ended: %v", round, err)
		}
		kill.Stop()
		if said = checkAfterKill(t, path, said); said == 0 {
			longest *= 2 // the machine is slow to begin one
		}
	}
	if said == 0 {
		t.Error("no child lived long enough to save")
	}
	t.Logf("%d steps saved", said)
}

// checkAfterKill is the step of the newest checkpoint: the one the process said
// it had saved, or the next, which it had no time left to say.
func checkAfterKill(t *testing.T, path string, said int) int {
	t.Helper()
	if said == 0 {
		return 0
	}
	db := open(t, path, OpenOptions{ReadOnly: true})
	defer db.Close()
	s, skipped, err := db.Latest(t.Context())
	if err != nil || len(skipped) > 0 {
		t.Fatalf("Latest: %v %v", skipped, err)
	}
	if got := s.Manifest.Step; got != said && got != said+1 {
		t.Fatalf("Latest is of step %d, the process had saved %d", got, said)
	}
	if err := same(s, s.Manifest.Step); err != nil {
		t.Fatal(err)
	}
	if err := db.Verify(t.Context(), 0, func(s Skipped) { t.Log(s) }); err != nil {
		t.Fatal(err)
	}
	return s.Manifest.Step
}

// childLimited runs into a limit on the file's size, as into a full disk.
func childLimited(path string) error {
	if err := limitFileSize(1 << 20); err != nil {
		return err
	}
	db, err := Open(path, OpenOptions{ChunkBytes: 4096, TxBytes: 64 << 10})
	if err != nil {
		return err
	}
	last := 0
	for step := 1; ; step++ {
		m, src := at(step)
		src.add("large", 60_000, uint64(step)) // 240 kB
		if _, err := db.Save(ctxForever, m, src); err != nil {
			if !errors.Is(err, syscall.EFBIG) || !strings.HasSuffix(err.Error(), ": raise the limit on the size of files (ulimit -f), or keep fewer checkpoints") {
				return fmt.Errorf("the wrong error: %w", err)
			}
			fmt.Println("full:", err)
			break
		}
		last = step
	}
	s, skipped, err := db.Latest(ctxForever)
	if err != nil || len(skipped) > 0 || s.Manifest.Step != last || last == 0 {
		return fmt.Errorf("after it: Latest is not %d: %v %w", last, skipped, err)
	}
	if err := db.Verify(ctxForever, 0, nil); err != nil {
		return err
	}
	if _, _, err := db.Prune(ctxForever, Keep{Last: 1}); err != nil {
		return fmt.Errorf("pruning when full: %w", err)
	}
	m, src := at(last + 1)
	if _, err := db.Save(ctxForever, m, src); err != nil {
		return fmt.Errorf("saving after pruning: %w", err)
	}
	return db.Close()
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.db")
	out, err := child("limit", path).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	db := open(t, path, OpenOptions{ReadOnly: true})
	if err := db.Verify(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
}

// recordedSteps is how many checkpoints the recorded process saves.
const recordedSteps = 6

// childRecorded saves, prunes, and compacts after some steps.
func childRecorded(path string) error {
	db, err := Open(path, small)
	if err != nil {
		return err
	}
	for step := 1; step <= recordedSteps; step++ {
		m, src := at(step)
		if _, err := db.Save(ctxForever, m, src); err != nil {
			return err
		}
		fmt.Println("saved", step)
		if _, _, err := db.Prune(ctxForever, Keep{Last: 2}); err != nil {
			return err
		}
		if step == 4 {
			if err := db.Compact(ctxForever); err != nil {
				return err
			}
		}
	}
	return db.Close()
}

// faultySteps is how many checkpoints the process saves whose disk fails.
const faultySteps = 3

// childFaulty saves, prunes and compacts, whatever fails, and says what did.
func childFaulty(path string) {
	said := func(what string, err error) bool {
		if err != nil {
			fmt.Printf("failed %s: %q\n", what, err.Error())
		}
		return err == nil
	}
	db, err := Open(path, OpenOptions{ChunkBytes: 32 << 10, TxBytes: 32 << 10})
	if !said("open", err) {
		return
	}
	for step := 1; step <= faultySteps; step++ {
		m, src := at(step)
		if _, err := db.Save(ctxForever, m, src); said("save", err) {
			fmt.Println("saved", step)
		}
		_, _, err := db.Prune(ctxForever, Keep{Last: 1})
		said("prune", err)
		if step == faultySteps-1 {
			said("compact", db.Compact(ctxForever))
		}
	}
	said("close", db.Close())
}
