package machines

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/internal/testall"
)

// TestMPIJob runs the launcher's command of the manifest for Kubernetes, whose fields package schema checks.
func TestMPIJob(t *testing.T) {
	testall.Long(t)
	launcher, err := exec.LookPath("mpirun.openmpi")
	if err != nil {
		if os.Getenv("TEST_MPI") == "required" {
			t.Fatal(err)
		}
		t.Skipf("%v (Debian's package openmpi-bin)", err)
	}
	b, err := os.ReadFile("mpijob.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		Spec struct {
			Replicas struct {
				Launcher struct {
					Template struct {
						Spec struct {
							Containers []struct{ Command, Args []string }
						}
					}
				} `yaml:"Launcher"`
			} `yaml:"mpiReplicaSpecs"`
		}
	}
	if err := yaml.Unmarshal(b, &job); err != nil {
		t.Fatal(err)
	}
	c := job.Spec.Replicas.Launcher.Template.Spec.Containers
	if len(c) != 1 || len(c[0].Command) != 1 || c[0].Command[0] != "mpirun" {
		t.Fatalf("the containers are %v, want one of mpirun", c)
	}
	dir := t.TempDir()
	config := "data: {source: digits}\nmodel: {preset: mlp, hidden: [8]}\ntrain: {microbatches: 4, reduction: tree, epochs: 1}\n"
	if err := os.WriteFile(filepath.Join(dir, "my.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.ReplaceAll(strings.Join(c[0].Args, "\n"), "/work", dir), "\n")
	cmd := exec.CommandContext(t.Context(), launcher, args...)
	cmd.Env = append(os.Environ(), "OMPI_MCA_rmaps_base_oversubscribe=1") // this machine may have one core
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "2 ranks on 1 machine, by Open MPI") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "my", "report.json")); err != nil {
		t.Error(err)
	}
}
