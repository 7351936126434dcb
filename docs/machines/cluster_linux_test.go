package machines

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"
)

// cluster is a Slurm of one node, which is this machine. Its files are in one folder, and its ports on loopback.
type cluster struct{ folder }

// settings is slurm.conf. Nobody else can reach the daemons, so the messages have no signatures. The node has more
// cores than this machine may have, since the ranks of a test compute little.
var settings = template.Must(template.New("slurm.conf").Parse(`ClusterName=test
SlurmctldHost={{.Host}}(127.0.0.1)
SlurmctldPort={{index .Ports 0}}
SlurmdPort={{index .Ports 1}}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={{.User}}
SlurmdUser={{.User}}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={{.Dir}}/state
SlurmdSpoolDir={{.Dir}}/spool
SlurmctldPidFile={{.Dir}}/slurmctld.pid
SlurmdPidFile={{.Dir}}/slurmd.pid
SlurmctldLogFile={{.Dir}}/slurmctld.log
SlurmdLogFile={{.Dir}}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
NodeName={{.Host}} NodeAddr=127.0.0.1 CPUs=4 RealMemory=100
PartitionName=all Nodes={{.Host}} Default=YES
`))

// newCluster starts Slurm until the end of the test. Where it is not installed, the test is left out.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	for _, name := range []string{"slurmctld", "slurmd", "srun", "mpirun.openmpi", "mpirun.mpich"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("TEST_SLURM") == "required" {
				t.Fatalf("%v: .ci/setup installs what the tests need", err)
			}
			t.Skipf("%v (Debian's packages slurm-wlm, openmpi-bin and mpich)", err)
		}
	}
	c := &cluster{folder{t: t, dir: t.TempDir()}}
	c.env = append(os.Environ(), "SLURM_CONF="+filepath.Join(c.dir, "slurm.conf"))
	c.configure()
	c.start("slurmctld", "-D", "-c")
	c.start("slurmd", "-D")
	c.until("the node is idle", func() bool {
		out, _ := c.try("sinfo", "-h", "-o", "%T")
		return strings.TrimSpace(out) == "idle"
	})
	t.Cleanup(func() {
		jobs, _ := c.try("squeue", "-h", "-o", "%i")
		for _, id := range strings.Fields(jobs) { // those of a test that failed
			_, _ = c.try("scancel", id)
		}
		c.until("no job is left", func() bool {
			out, err := c.try("squeue", "-h")
			return err == nil && out == ""
		})
	})
	return c
}

func (c *cluster) configure() {
	c.t.Helper()
	host, err := os.Hostname()
	if err != nil {
		c.t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	me, err := user.Current()
	if err != nil {
		c.t.Fatal(err)
	}
	var ports []int
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	f, err := os.Create(filepath.Join(c.dir, "slurm.conf"))
	if err != nil {
		c.t.Fatal(err)
	}
	err = settings.Execute(f, map[string]any{"Host": host, "User": me.Username, "Dir": c.dir, "Ports": ports})
	if err = errors.Join(err, f.Close(), os.Mkdir(filepath.Join(c.dir, "state"), 0o700), os.Mkdir(filepath.Join(c.dir, "spool"), 0o755)); err != nil {
		c.t.Fatal(err)
	}
}

// start starts a daemon, and ends it after the test.
func (c *cluster) start(name string, args ...string) {
	c.t.Helper()
	out := &strings.Builder{}
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.env, c.dir, out, out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		gone := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer gone.Stop()
		err := cmd.Wait()
		if c.t.Failed() {
			log, _ := os.ReadFile(filepath.Join(c.dir, name+".log"))
			c.t.Logf("%s: %v\n%s%s", name, err, out, log)
		}
	})
}

// until waits for a state. The limit only ends a test that would never end.
func (c *cluster) until(what string, is func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited too long until %s", what)
		}
	}
}

// job is what Slurm says of a job, such as JobState and Restarts.
func (c *cluster) job(id string) map[string]string {
	c.t.Helper()
	about := map[string]string{}
	for _, field := range strings.Fields(c.run("scontrol", "-o", "show", "job", id)) {
		name, value, _ := strings.Cut(field, "=")
		about[name] = value
	}
	return about
}

// process is the process of a rank of a job's first step; 0: it is not there yet.
func (c *cluster) process(id string, rank int) (pid int) {
	out, _ := c.try("scontrol", "listpids", id+".0")
	for line := range strings.Lines(out) {
		var p, global int
		var job, step, local string
		if n, _ := fmt.Sscan(line, &p, &job, &step, &local, &global); n == 5 && global == rank {
			return p
		}
	}
	return 0
}
