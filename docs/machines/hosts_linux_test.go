package machines

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// agent is what ssh is between the machines of a test: namespaces, each with a network and a name of its own.
const agent = `#!/bin/sh
while case $1 in -*) true ;; *) false ;; esac; do shift; done
host=$1
shift
exec ip netns exec %s-"$host" unshare --mount --uts sh -c "mount --bind %s/names /etc/hosts && hostname $host && $*"
`

// network makes machines of this one, which are called node1 and so on, and a wire between two of them. It gives the
// program that runs a command on one.
func (c *folder) network() string {
	t := c.t
	t.Helper()
	id := fmt.Sprintf("berth%d", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("this test makes namespaces, which root may where the system lets it: ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	for _, node := range []string{"-node1", "-node2"} {
		ip("netns", "add", id+node)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", id+node).Run() })
	}
	ip("link", "add", "eth0", "netns", id+"-node1", "type", "veth", "peer", "name", "eth0", "netns", id+"-node2")
	for i, node := range []string{"-node1", "-node2"} {
		ip("-n", id+node, "addr", "add", fmt.Sprintf("192.0.2.%d/24", i+1), "dev", "eth0")
		ip("-n", id+node, "link", "set", "eth0", "up")
		ip("-n", id+node, "link", "set", "lo", "up")
	}
	for _, node := range []string{"-node1", "-node2"} { // UCX leaves out a wire that Linux does not call up yet, which takes it up to a second
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			out, err := exec.Command("ip", "-n", id+node, "-oneline", "link", "show", "eth0").CombinedOutput()
			if err != nil || time.Since(began) > 10*time.Second {
				t.Fatalf("the wire does not come up: %v: %s", err, out)
			}
			if strings.Contains(string(out), "state UP") {
				break
			}
		}
	}
	c.write("names", "127.0.0.1 localhost\n192.0.2.1 node1\n192.0.2.2 node2\n")
	c.write("agent", fmt.Sprintf(agent, id, c.dir))
	return filepath.Join(c.dir, "agent")
}

// TestTwoMachines trains over a network, as docs/machines.md says, with the weights of one process.
func TestTwoMachines(t *testing.T) {
	testall.Long(t)
	c := &folder{t: t, dir: t.TempDir(), env: append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"UCX_TLS=tcp,self")} // UCX, in MPICH, would see that the machines are one
	ssh := c.network()
	c.write("hosts", "node1 slots=1\nnode2 slots=1\n")
	c.epochs("my.yaml", 1)
	c.run("trainer", "train", "my.yaml", "--run", "one", "--quiet")
	want := c.report("one")
	for launcher, args := range map[string][]string{
		"mpirun.openmpi": {"--mca", "plm_rsh_agent", ssh, "--hostfile", "hosts", "--bind-to", "none"},
		"mpirun.mpich":   {"-launcher", "ssh", "-launcher-exec", ssh, "-hosts", "node1,node2"},
	} {
		if _, err := exec.LookPath(launcher); err != nil {
			if os.Getenv("TEST_MPI") == "required" {
				t.Fatal(err)
			}
			t.Logf("%v (Debian's packages openmpi-bin and mpich)", err)
			continue
		}
		args = append(append([]string{"node1", launcher}, args...), "-n", "2", "trainer", "train", "my.yaml", "--run", launcher)
		out := c.run(ssh, args...)
		if got := c.report(launcher); got != want || !strings.Contains(out, "2 ranks on 2 machines, by ") {
			t.Errorf("%s: %+v, one process has %+v:\n%s", launcher, got, want, out)
		}
	}
}
