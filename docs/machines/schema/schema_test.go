// Package schema checks the manifest for Kubernetes. It is a module of its own: nothing else needs what it needs.
package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/kubeflow/mpi-operator/pkg/version" // the module with the schema (Apache-2.0)
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// strict makes a schema refuse fields that it does not name, as kubectl does. What Kubernetes adds itself is free.
func strict(node any) {
	switch n := node.(type) {
	case []any:
		for _, x := range n {
			strict(x)
		}
	case map[string]any:
		_, fields := n["properties"]
		_, more := n["additionalProperties"]
		if fields && !more && n["x-kubernetes-preserve-unknown-fields"] != true {
			n["additionalProperties"] = false
		}
		for _, x := range n {
			strict(x)
		}
	}
}

// published is the schema of an MPIJob, as its operator publishes it.
func published(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/kubeflow/mpi-operator").Output()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "manifests", "base", "kubeflow.org_mpijobs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					Of map[string]any `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(b, &crd); err != nil {
		t.Fatal(err)
	}
	v := crd.Spec.Versions
	if len(v) != 1 || v[0].Name != "v2beta1" {
		t.Fatalf("%d versions, want v2beta1 alone", len(v))
	}
	schema := v[0].Schema.Of
	strict(schema)
	schema["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object"} // that of every kind
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mpijob.json", plain(t, schema)); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("mpijob.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// plain is a value of YAML as one of JSON.
func plain(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	v, err = jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestMPIJob: the manifest is what its operator takes, and small mistakes in it are not.
func TestMPIJob(t *testing.T) {
	schema := published(t)
	b, err := os.ReadFile("../mpijob.yaml")
	if err != nil {
		t.Fatal(err)
	}
	check := func(text string) error {
		var job any
		if err := yaml.Unmarshal([]byte(text), &job); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(plain(t, job))
	}
	if err := check(string(b)); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ from, to string }{
		{"slotsPerWorker: 1", "slotsPerWorker: one"},
		{"backoffLimit", "backOffLimit"},
		{"volumeMounts", "mounts"},
		{"image: registry.example.com/trainer:1", "image: [trainer]"},
		{"containers:", "container:"},
		{", mountPath: /work", ""},
	} {
		text := strings.Replace(string(b), c.from, c.to, 1)
		if err := check(text); err == nil || text == string(b) {
			t.Errorf("the manifest may have %q in place of %q", c.to, c.from)
		}
	}
}
