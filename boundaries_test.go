package berth_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/berth-ml/berth"

// mayImport is the architecture: which of our packages each may import. A name
// that ends in ... stands for everything below it.
var mayImport = map[string][]string{
	"engine/shape":              {},
	"engine/hosttensor":         {"engine/shape"},
	"engine/rng":                {},
	"engine/osfile":             {},
	"engine/safetensors":        {"engine/shape", "engine/osfile", "internal/gunzip"},
	"engine/onnx":               {"engine/shape", "engine/graph", "engine/ops"},
	"engine/graph":              {"engine/shape", "internal/panics", "internal/stop"},
	"engine/registry":           {"internal/panics"},
	"engine/ops":                {"engine/shape", "engine/graph", "engine/rng", "engine/registry", "internal/panics"},
	"engine/ops/ref":            {"engine/shape", "engine/graph", "engine/rng", "engine/ops"},
	"engine/optim":              {"engine/shape", "engine/graph", "engine/ops", "engine/registry", "internal/panics"},
	"engine/models":             {"engine/shape", "engine/graph", "engine/rng", "engine/ops", "engine/optim", "engine/registry", "engine/metrics", "internal/panics", "internal/units"},
	"engine/metrics":            {"engine/graph", "engine/ops", "internal/panics", "internal/units", "engine/registry"},
	"engine/fuse":               {"engine/shape", "engine/graph", "internal/stop", "internal/units"},
	"engine/paging":             {},
	"engine/device":             {"engine/shape", "engine/graph", "internal/units"},
	"engine/hostfile":           {"engine/device", "engine/device/memory", "engine/osfile", "internal/units"},
	"engine/device/memory":      {"engine/device"},
	"engine/device/planner":     {"engine/graph", "engine/fuse", "engine/device", "internal/stop"},
	"engine/device/streams":     {"engine/shape", "engine/graph", "engine/fuse", "engine/device", "engine/device/memory", "engine/device/planner", "internal/panics", "internal/prompt", "internal/units"},
	"engine/device/host":        {"engine/shape", "engine/graph", "engine/fuse", "engine/device", "engine/device/planner", "engine/device/streams", "internal/panics", "internal/stop", "internal/units"},
	"engine/device/cpu":         {"engine/shape", "engine/graph", "engine/ops", "engine/fuse", "engine/device", "engine/device/host", "engine/device/cpu/kernels", "engine/device/cpu/kernels/isa", "engine/device/cpu/kernels/work", "internal/panics", "internal/prompt"},
	"engine/device/cpu/kernels": {"engine/device", "engine/graph", "engine/fuse", "engine/device/cpu/kernels/elem", "engine/device/cpu/kernels/pooling", "engine/device/cpu/kernels/product", "engine/device/cpu/kernels/rows", "engine/device/cpu/kernels/work"},
	"engine/device/gpu/gen":     {"engine/shape", "engine/graph", "engine/ops", "engine/fuse", "engine/rng", "engine/device"},
	"engine/device/gpu/cl":      {"engine/shape", "engine/graph", "engine/ops", "engine/fuse", "engine/device", "engine/device/gpu/gen", "engine/device/host", "engine/device/planner", "engine/device/streams", "internal/filecache", "internal/units"},
	"engine/device/fault":       {"engine/shape", "engine/graph", "engine/device"},
	"engine/device/null":        {"engine/shape", "engine/graph", "engine/ops", "engine/device", "engine/device/host"},
	"engine/device/devicetest":  {"engine/shape", "engine/graph", "engine/ops", "engine/ops/ref", "engine/device"},
	"residency":                 {"residency/admission", "residency/copies", "residency/hostmem", "residency/ledger", "engine/...", "internal/prompt", "internal/units"},
	"residency/admission":       {},
	"residency/copies":          {"engine/device"},
	"residency/hostmem":         {"residency/copies", "engine/device", "engine/hostfile", "internal/units"},
	"residency/ledger":          {"engine/device"},
	"partition":                 {"partition/cut", "partition/divide", "partition/footprint", "partition/forecast", "partition/nodes", "partition/order", "partition/parts", "partition/pieces", "partition/place", "partition/recompute", "partition/segment", "partition/simulate", "partition/speed", "partition/step", "engine/...", "executor/schedule", "internal/columns", "internal/edit", "internal/stop", "internal/units"},
	"partition/recompute":       {"partition/nodes", "engine/graph", "engine/ops", "internal/stop"},
	"partition/pieces":          {"partition/nodes", "engine/graph", "engine/ops", "internal/stop"},
	"partition/parts":           {"engine/graph", "engine/ops", "internal/stop"},
	"partition/nodes":           {"engine/...", "internal/stop"},
	"partition/place":           {"partition/nodes", "engine/graph", "engine/ops", "internal/stop"},
	"partition/divide":          {"partition/nodes", "partition/place", "engine/graph", "engine/ops", "engine/shape", "internal/stop"},
	"partition/segment":         {"partition/nodes", "partition/place", "engine/...", "executor/schedule", "internal/stop"},
	"partition/footprint":       {"partition/nodes", "partition/search", "partition/segment", "engine/...", "internal/stop"},
	"partition/order":           {"executor/schedule"},
	"partition/speed":           {"engine/...", "internal/stop"},
	"partition/cut":             {"partition/footprint", "partition/nodes", "partition/order", "partition/pieces", "partition/place", "partition/search", "partition/segment", "partition/speed", "engine/...", "executor/schedule", "internal/edit", "internal/stop", "internal/units"},
	"partition/step":            {"partition/nodes", "partition/segment", "engine/...", "executor/schedule", "internal/stop"},
	"partition/forecast":        {"partition/nodes", "partition/segment", "partition/speed", "partition/step", "engine/...", "internal/stop"},
	"partition/simulate":        {"partition/forecast", "partition/segment", "partition/speed", "partition/step", "engine/...", "internal/stop", "internal/units"},
	"partition/nets":            {"engine/..."},
	"partition/nets/passes":     {"partition/divide", "partition/nets", "partition/nodes", "partition/order", "partition/place", "partition/segment", "partition/step", "engine/graph", "executor/schedule", "internal/stop"},
	"partition/search":          {"internal/stop"},
	"partition/picture":         {"partition", "executor/schedule", "engine/graph", "internal/svg", "internal/units"},
	"partition/costs":           {"engine/device", "engine/graph", "engine/osfile"},
	"partition/planning":        {"configs", "engine/device", "engine/graph", "executor/schedule", "internal/errs", "internal/stop", "internal/units", "partition"},
	"executor/timing":           {"partition", "partition/costs", "executor", "executor/calls", "residency", "engine/...", "internal/busy", "internal/stop"},
	"executor/ranks":            {"engine/device", "engine/shape", "internal/prompt"},
	"executor/ranks/mpi":        {"executor/ranks", "engine/device", "internal/prompt"},
	"executor/ranks/crew":       {"executor/ranks", "engine/device"},
	"executor/ranks/rankstest":  {"executor/ranks", "engine/device"},
	"executor/schedule":         {"internal/units"},
	"executor/calls":            {"engine/...", "internal/stop"},
	"executor":                  {"partition", "executor/balance", "executor/calls", "executor/ranks", "executor/schedule", "residency", "residency/ledger", "engine/...", "internal/panics", "internal/stop", "internal/units"},
	"executor/eager":            {"residency", "residency/ledger", "engine/...", "internal/errs", "internal/panics"},
	"executor/feed":             {"executor", "residency", "datasets", "engine/..."},
	"executor/infer":            {"executor", "executor/feed", "partition", "residency", "residency/ledger", "datasets", "engine/..."},
	"executor/batching":         {"internal/panics"},
	"executor/balance":          {"engine/device"},
	"jobs/order":                {},
	"jobs/sweep":                {"configs", "engine/rng"},
	"jobs/queue":                {"checkpoint", "engine/osfile", "jobs/order"},
	"jobs":                      {"", "checkpoint/initial", "checkpoint/rundir", "configs", "datasets", "engine/device", "engine/device/host", "engine/osfile", "internal/build", "internal/prompt", "internal/units", "jobs/order", "jobs/queue", "jobs/sweep"},
	"jobs/socket":               {"", "configs", "internal/build", "jobs", "jobs/queue"},
	"executor/answer":           {"executor", "executor/batching", "executor/infer", "partition", "residency/ledger", "checkpoint", "datasets", "datasets/chat", "datasets/tokenizer", "engine/...", "internal/edit", "internal/errs", "internal/panics"},
	"executor/session":          {"checkpoint/initial", "checkpoint/restore", "checkpoint/runstate", "checkpoint/saver", "configs", "configs/specs", "datasets", "executor", "executor/answer", "executor/balance", "executor/eager", "executor/feed", "executor/infer", "executor/ranks/crew", "executor/schedule", "executor/timing", "executor/trace", "internal/errs", "internal/stop", "internal/units", "partition", "partition/costs", "partition/planning", "residency", "engine/..."},
	"executor/train":            {"checkpoint", "checkpoint/initial", "checkpoint/restore", "checkpoint/rundir", "checkpoint/runstate", "checkpoint/saver", "configs", "configs/specs", "datasets", "datasets/custom", "datasets/tokenizer", "executor", "executor/answer", "executor/balance", "executor/boundary", "executor/feed", "executor/infer", "executor/ranks", "executor/ranks/crew", "executor/session", "executor/trace", "internal/edit", "internal/errs", "internal/stop", "internal/units", "partition", "partition/planning", "residency", "residency/hostmem", "residency/ledger", "engine/..."},
	"executor/trained":          {"checkpoint", "checkpoint/initial", "checkpoint/restore", "checkpoint/rundir", "checkpoint/runstate", "configs", "configs/specs", "datasets", "datasets/chat", "executor", "executor/answer", "executor/infer", "executor/session", "internal/errs", "internal/stop", "partition", "partition/planning", "residency", "engine/..."},
	"executor/boundary":         {"executor", "executor/ranks/crew", "residency", "residency/ledger", "engine/graph", "engine/shape"},
	"executor/trace":            {"executor", "engine/fuse", "internal/units", "executor/schedule", "partition", "partition/picture", "residency/ledger", "engine/device", "engine/osfile"},
	"checkpoint":                {"engine/shape", "engine/osfile", "engine/safetensors"},
	"checkpoint/exchange":       {"checkpoint", "checkpoint/initial", "checkpoint/pretrained", "checkpoint/restore", "checkpoint/rundir", "checkpoint/runstate", "configs", "configs/specs", "datasets", "datasets/chat", "datasets/columns", "datasets/tokenizer", "engine/...", "internal/errs", "internal/stop"},
	"checkpoint/initial":        {"checkpoint", "engine/shape", "engine/safetensors", "engine/graph", "engine/models"},
	"checkpoint/pretrained":     {"checkpoint", "datasets/chat", "datasets/tokenizer", "engine/shape", "engine/osfile", "engine/safetensors"},
	"checkpoint/restore":        {"checkpoint", "checkpoint/initial", "checkpoint/rundir", "checkpoint/runstate", "configs", "datasets", "datasets/chat", "datasets/columns", "datasets/tokenizer", "engine/graph", "engine/models", "engine/registry"},
	"checkpoint/runstate":       {"checkpoint", "configs", "datasets", "engine/graph", "engine/metrics"},
	"checkpoint/rundir":         {"checkpoint", "checkpoint/rundir/tfevents", "checkpoint/runstate", "configs", "datasets/chat", "engine/models", "engine/osfile", "engine/metrics"},
	"checkpoint/saver":          {"checkpoint", "residency", "residency/ledger", "engine/shape", "engine/graph", "engine/device", "engine/device/host"},
	"datasets":                  {"datasets/chat", "datasets/columns", "datasets/fault", "datasets/files", "datasets/images", "datasets/tabular", "datasets/tokenizer", "engine/shape", "engine/rng", "engine/osfile", "engine/safetensors", "internal/filecache", "internal/panics", "internal/units"},
	"datasets/chat":             {},
	"datasets/fault":            {},
	"datasets/images":           {"internal/panics", "internal/units"},
	"datasets/files":            {"datasets/fault", "engine/osfile", "internal/gunzip"},
	"datasets/columns":          {"internal/columns", "internal/edit", "internal/units"},
	"datasets/custom":           {"datasets", "engine/hosttensor", "engine/registry", "engine/shape", "internal/panics"},
	"datasets/tabular":          {"datasets/fault", "datasets/files", "engine/osfile"},
	"datasets/tokenizer":        {"engine/osfile"},
	"configs":                   {"engine/osfile", "engine/registry", "executor/schedule", "internal/edit", "internal/units", "engine/metrics"},
	"configs/specs":             {"configs", "datasets", "datasets/chat", "datasets/columns", "datasets/custom", "datasets/tokenizer", "engine/...", "internal/edit", "internal/errs"},

	"checkpoint/rundir/tfevents":       {},
	"bench/gallery":                    {},
	"internal/golden":                  {},
	"internal/gunzip":                  {},
	"internal/outside":                 {},
	"internal/edit":                    {},
	"internal/build":                   {},
	"internal/busy":                    {},
	"internal/errs":                    {},
	"internal/columns":                 {},
	"internal/prompt":                  {},
	"internal/stop":                    {},
	"internal/filecache":               {"engine/osfile"},
	"internal/units":                   {},
	"internal/svg":                     {},
	"internal/svg/raster":              {"internal/svg"},
	"internal/svg/svgtest":             {"internal/svg"},
	"internal/panics":                  {},
	"internal/memdir":                  {},
	"internal/testall":                 {},
	"internal/ort":                     {"engine/onnx"},
	"internal/smallrun":                {"executor", "partition", "residency", "datasets", "engine/..."},
	"cmd/trainer/serve":                {"checkpoint", "checkpoint/rundir", "configs", "datasets", "datasets/chat", "datasets/columns", "datasets/images", "datasets/tokenizer", "engine/device", "engine/device/fault", "engine/device/host", "engine/shape", "internal/units", "cmd/trainer/internal/bounds", "cmd/trainer/internal/exposition", "cmd/trainer/internal/access"},
	"cmd/trainer/internal/addresses":   {},
	"cmd/trainer/internal/access":      {},
	"cmd/trainer/internal/bounds":      {},
	"cmd/trainer/internal/exposition":  {},
	"cmd/trainer/internal/text":        {"engine/metrics", "internal/units"},
	"cmd/trainer/internal/console":     {"internal/columns"},
	"cmd/trainer/internal/cli":         {"configs", "engine/osfile", "internal/edit", "cmd/trainer/internal/console", "internal/columns", "internal/units"},
	"cmd/trainer/internal/signals":     {"cmd/trainer/internal/cli", "cmd/trainer/internal/console"},
	"cmd/trainer/internal/phase":       {"cmd/trainer/internal/console", "internal/units"},
	"cmd/trainer/internal/progress":    {"cmd/trainer/internal/console", "cmd/trainer/internal/phase", "cmd/trainer/internal/text", "internal/units"},
	"cmd/trainer/internal/runs":        {"checkpoint", "checkpoint/rundir", "configs", "engine/osfile", "cmd/trainer/internal/cli", "cmd/trainer/internal/phase", "internal/columns"},
	"cmd/trainer/internal/queued":      {"", "checkpoint/rundir", "configs", "internal/svg", "internal/units", "jobs", "jobs/queue", "jobs/socket", "jobs/sweep", "engine/osfile", "internal/columns", "cmd/trainer/internal/cli", "cmd/trainer/internal/console", "cmd/trainer/internal/progress", "cmd/trainer/internal/runs", "cmd/trainer/internal/signals", "cmd/trainer/internal/text", "cmd/trainer/internal/overview"},
	"cmd/trainer/ui/curves":            {"checkpoint/rundir", "internal/filecache"},
	"cmd/trainer/ui":                   {"", "cmd/trainer/internal/bounds", "cmd/trainer/internal/exposition", "checkpoint", "checkpoint/rundir", "configs", "engine/device", "engine/osfile", "cmd/trainer/internal/charts", "cmd/trainer/internal/overview", "cmd/trainer/internal/queued", "cmd/trainer/ui/curves", "internal/filecache", "jobs/queue", "cmd/trainer/internal/access", "jobs/socket"},
	"cmd/trainer/internal/charts":      {"checkpoint/rundir", "engine/osfile", "cmd/trainer/internal/cli", "cmd/trainer/internal/phase", "cmd/trainer/internal/text", "internal/edit", "internal/svg", "internal/svg/raster"},
	"cmd/trainer/internal/overview":    {"checkpoint", "checkpoint/rundir", "cmd/trainer/internal/cli", "cmd/trainer/internal/console", "cmd/trainer/internal/runs", "cmd/trainer/internal/signals", "cmd/trainer/internal/text", "internal/columns", "internal/units", "engine/osfile", "jobs/queue"},
	"cmd/trainer/internal/checkpoints": {"checkpoint", "checkpoint/exchange", "checkpoint/rundir", "checkpoint/runstate", "configs", "datasets", "engine/graph", "engine/osfile", "engine/safetensors", "cmd/trainer/internal/cli", "cmd/trainer/internal/console", "cmd/trainer/internal/runs", "cmd/trainer/internal/text", "internal/columns", "internal/units"},

	"engine/device/cpu/kernels/asm": {},
	"engine/device/cpu/kernels/vec": {"engine/shape", "engine/ops", "engine/rng", "engine/device/cpu/kernels/asm"},

	"engine/device/cpu/kernels/isa":         {"engine/device/cpu/kernels/vec"},
	"engine/device/cpu/kernels/work":        {"engine/shape", "engine/graph", "engine/device", "engine/device/cpu/kernels/isa"},
	"engine/device/cpu/kernels/strided":     {"engine/shape", "engine/device/cpu/kernels/asm", "engine/device/cpu/kernels/isa"},
	"engine/device/cpu/kernels/dropout":     {"engine/rng", "engine/device/cpu/kernels/isa", "engine/device/cpu/kernels/vec", "engine/device/cpu/kernels/work"},
	"engine/device/cpu/kernels/elem":        {"engine/shape", "engine/graph", "engine/ops", "engine/device", "engine/device/cpu/kernels/isa", "engine/device/cpu/kernels/vec", "engine/device/cpu/kernels/work", "engine/device/cpu/kernels/strided", "engine/device/cpu/kernels/dropout"},
	"engine/device/cpu/kernels/pooling":     {"engine/shape", "engine/graph", "engine/ops", "engine/device/cpu/kernels/asm", "engine/device/cpu/kernels/isa", "engine/device/cpu/kernels/work"},
	"engine/device/cpu/kernels/product":     {"engine/shape", "engine/graph", "engine/ops", "engine/device", "engine/device/cpu/kernels/asm", "engine/device/cpu/kernels/vec", "engine/device/cpu/kernels/isa", "engine/device/cpu/kernels/work", "engine/device/cpu/kernels/dropout"},
	"engine/device/cpu/kernels/rows":        {"engine/shape", "engine/graph", "engine/ops", "engine/rng", "engine/device", "engine/device/cpu/kernels/vec", "engine/device/cpu/kernels/work", "engine/device/cpu/kernels/strided"},
	"engine/device/cpu/kernels/kernelstest": {"engine/shape", "engine/graph", "engine/ops", "engine/ops/ref", "engine/device/cpu/kernels/isa", "engine/device/cpu/kernels/work"},
}

// top are the packages that may import all of ours.
var top = []string{"", "cmd/trainer", "cmd/trainer/command", "bench", "bench/opbyop", "bench/sweeps", "bench/tables", "internal/runtest"}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	for pkg, imports := range importsOf(t) {
		if slices.Contains(top, pkg) || isExample(pkg) {
			continue
		}
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("package %q is not in the table: say in mayImport what it may import", pkg)
		}
		for _, i := range imports {
			if !allows(allowed, i) || kindOf(i) != "" && kindOf(i) != kindOf(pkg) {
				t.Errorf("%s imports %s, which it may not", pkg, i)
			}
		}
	}
}

// Examples import what programs of other modules can.
func TestExamplesImportNothingInternal(t *testing.T) {
	for pkg, imports := range importsOf(t) {
		for _, i := range imports {
			if isExample(pkg) && slices.Contains(strings.Split(i, "/"), "internal") {
				t.Errorf("%s imports %s, which programs of other modules cannot", pkg, i)
			}
		}
	}
}

// isExample tells programs such as users write.
func isExample(pkg string) bool { return pkg == "examples" || strings.HasPrefix(pkg, "examples/") }

// kindOf is the device kind that a package belongs to, "" if none. Kinds are
// found through the registry.
func kindOf(pkg string) string {
	for _, kind := range []string{"engine/device/cpu", "engine/device/gpu", "engine/device/null"} {
		if pkg == kind || strings.HasPrefix(pkg, kind+"/") {
			return kind
		}
	}
	return ""
}

// edges are the packages through which Go programs and requests pass host tensors in
// and get them back. They and hosttensor alone import gorgonia.
var edges = []string{module, module + "/datasets/custom", module + "/executor/answer", module + "/executor/eager", module + "/executor/train", module + "/executor/trained", module + "/cmd/trainer/serve", module + "/internal/runtest"}

// A package depends on gorgonia only if it depends on one of the edges.
func TestNothingBelowTheEdgesDependsOnGorgonia(t *testing.T) {
	const bridge = module + "/engine/hosttensor"
	for pkg, imports := range allImports(t) {
		pkg = strings.TrimSuffix(module+"/"+pkg, "/")
		if pkg == bridge || slices.Contains(edges, pkg) || isExample(strings.TrimPrefix(pkg, module+"/")) {
			continue
		}
		for _, i := range imports {
			if i == bridge || strings.HasPrefix(i, "gorgonia.org/") {
				t.Errorf("%s imports %s, which only hosttensor and the edges %v may", pkg, i, edges)
			}
		}
	}
}

func allows(allowed []string, pkg string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		tree, ok := strings.CutSuffix(a, "...")
		return pkg == a || ok && strings.HasPrefix(pkg, tree)
	})
}

// importsOf lists, for each of our packages, which of ours it imports outside
// its tests.
func importsOf(t *testing.T) map[string][]string {
	out := map[string][]string{}
	for pkg, imports := range allImports(t) {
		out[pkg] = nil
		for _, path := range imports {
			if rest, ok := strings.CutPrefix(path, module+"/"); ok {
				out[pkg] = append(out[pkg], rest)
			}
		}
	}
	return out
}

// allImports lists what each of our packages imports outside its tests, on any system.
func allImports(t *testing.T) map[string][]string {
	out := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if isModule(path) && path != "." {
			return fs.SkipDir // a module of its own, such as a generator
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), ".")
		for _, s := range f.Imports {
			i, err := strconv.Unquote(s.Path.Value)
			if err != nil {
				return err
			}
			out[pkg] = append(out[pkg], i)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}
