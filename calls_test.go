package berth_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/eager"
	"github.com/berth-ml/berth/internal/runtest"
)

// opened is a type whose values are opened by a call. Its methods refuse bad callers.
type opened struct {
	name string // in package berth, or eager
	open func(t *testing.T) any
	// fine are methods whose error says something else than that the value is closed.
	fine []string
}

// theOpened are the types of package berth with methods that do something, and those that
// OpByOp hands out.
var theOpened = []opened{
	{name: "Run", open: func(t *testing.T) any { return runtest.Open(t, runtest.Everything) }},
	{name: "Trained", open: func(t *testing.T) any { return openTrained(t) }},
	{name: "Training", open: func(t *testing.T) any { return startTraining(t) }},
	{name: "Service", open: func(t *testing.T) any { return serve(t) }, fine: []string{"Err"}},
	{name: "Devices", open: func(t *testing.T) any { return runtest.OpenDevices(t, "cpu", 0) }, fine: []string{"Reopen"}},
	{name: "OpByOp", open: func(t *testing.T) any { return openOps(t) }},
	{name: "Inspection"},
	{name: "eager.Tape", open: func(t *testing.T) any { return openOps(t).NewTape() }},
	{name: "eager.Function"},
	{name: "eager.Tensor"},
	{name: "eager.Chain", fine: []string{"Wait", "Err"}}, // a nil Chain has ended
}

// typeOf is the type of each exported name of package berth.
var typeOf = map[string]reflect.Type{
	"Run": reflect.TypeFor[*berth.Run](), "Trained": reflect.TypeFor[*berth.Trained](), "Training": reflect.TypeFor[*berth.Training](),
	"Service": reflect.TypeFor[*berth.Service](), "Devices": reflect.TypeFor[*berth.Devices](), "OpByOp": reflect.TypeFor[*berth.OpByOp](),
	"Inspection": reflect.TypeFor[*berth.Inspection](), "eager.Tape": reflect.TypeFor[*eager.Tape](), "eager.Function": reflect.TypeFor[*eager.Function](),
	"eager.Tensor": reflect.TypeFor[*eager.Tensor](), "eager.Chain": reflect.TypeFor[*eager.Chain](),
}

// plain are the other types: values with fields, which are not opened. A nil pointer to one is
// used as Go uses it.
var plain = []string{
	"Adapter", "Batch", "Best", "Boundary", "Bubble", "Bucket", "ClassResult", "Comparison", "CopyReport", "DeviceError", "DeviceLoss", "DeviceReport", "DevicesOptions",
	"Evaluation", "ExecutableReport", "Executables", "Exported", "Final", "GenerateOptions", "Generation", "HostReport", "ImportOptions",
	"Imported", "DeviceMemory", "KeptAdapter", "LabelResult", "LedgerReport", "Memory", "MemoryMoves", "LongPromptError", "LostDevice", "Message", "Metrics", "Named", "Observer", "OpenOptions", "OutputError", "Piece", "Prediction", "RankReport", "RankWait", "Ranks", "RanksOptions", "RanksVerdict", "RefusedOp",
	"Report", "SaveReport", "Saved", "SegmentClusters", "ServeOptions", "ServiceGroupStats", "ServicePart", "ServiceStats", "Start", "SteadyState", "Step", "StepLane", "StepSpan", "StepTiming", "StepTimeline", "StepTrace", "TenantMemory", "Test", "Throughput",
	"TrainOptions", "TrainedOptions", "Used", "Weights", "WeightsError",
}

// functions are the exported functions.
var functions = map[string]any{
	"Open": berth.Open, "OpenTrained": berth.OpenTrained, "OpenAdapters": berth.OpenAdapters, "OpenDevices": berth.OpenDevices, "Import": berth.Import, "Export": berth.Export, "ExportPEFT": berth.ExportPEFT, "ExportONNX": berth.ExportONNX, "ExportSafetensors": berth.ExportSafetensors,
	"Compile": berth.Compile, "IsUsage": berth.IsUsage, "ReadData": berth.ReadData, "DescribeTable": berth.DescribeTable, "JoinRanks": berth.JoinRanks, "LossOf": berth.LossOf,
}

// Each exported type and function of package berth is in a table of these tests.
func TestBadCallersMeetEverything(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			for _, name := range untold(d) {
				t.Errorf("%s: %s is in no table of calls_test.go: add it to theOpened, plain or functions", path, name)
			}
		}
	}
}

// untold are the exported names that a declaration makes and that no table has.
func untold(d ast.Decl) (names []string) {
	if f, ok := d.(*ast.FuncDecl); ok {
		if f.Recv == nil && f.Name.IsExported() && functions[f.Name.Name] == nil {
			names = append(names, f.Name.Name)
		}
		return names
	}
	for _, s := range d.(*ast.GenDecl).Specs {
		if x, ok := s.(*ast.TypeSpec); ok && x.Name.IsExported() && typeOf[x.Name.Name] == nil && !slices.Contains(plain, x.Name.Name) {
			names = append(names, x.Name.Name)
		}
	}
	return names
}

// A method of a nil value, or of one that nobody opened, fails with ErrOptions. Without an
// error, it gives what there is: nothing.
func TestCallsOfNothing(t *testing.T) {
	for _, x := range theOpened {
		typ := typeOf[x.name]
		for what, v := range map[string]reflect.Value{"nil": reflect.Zero(typ), "zero": reflect.New(typ.Elem())} {
			if what == "nil" && x.name == "eager.Tensor" { // its methods are those of values
				continue
			}
			eachMethod(v, func(name string, m reflect.Value) {
				if name == "Grad" { // a builder's own, which never comes
					return
				}
				err, fails := call(t, what+" "+x.name+"."+name, m, good)
				switch {
				case fails && (gives(name) || slices.Contains(x.fine, name) && x.name != "Service" && x.name != "Devices"):
					if err != nil {
						t.Errorf("%s %s.%s: %v", what, x.name, name, err)
					}
				case fails && !refusedAs(err, x.name):
					t.Errorf("%s %s.%s: %v, want ErrOptions", what, x.name, name, err)
				}
			})
		}
	}
}

// refusedAs reports whether an error is that of a value that nobody opened. An Inspection is
// never opened by a program: it is over.
func refusedAs(err error, name string) bool {
	return errors.Is(err, berth.ErrOptions) || name == "Inspection" && errors.Is(err, berth.ErrClosed)
}

// gives reports whether a method gives back what the value holds, which may be nothing.
func gives(name string) bool { return name == "Close" || name == "Release" }

// A method of a closed value fails with ErrClosed. Without an error, it says what it knew.
func TestCallsAfterClose(t *testing.T) {
	for _, x := range theOpened {
		if x.open == nil {
			continue
		}
		v := reflect.ValueOf(x.open(t))
		if err, _ := call(t, x.name+".Close", v.MethodByName("Close"), good); err != nil {
			t.Errorf("%s.Close: %v", x.name, err)
		}
		eachMethod(v, func(name string, m reflect.Value) {
			if name == "Reopen" { // it wants closed devices
				return
			}
			err, fails := call(t, "closed "+x.name+"."+name, m, good)
			switch {
			case fails && (gives(name) || slices.Contains(x.fine, name)):
				if err != nil {
					t.Errorf("closed %s.%s: %v", x.name, name, err)
				}
			case fails && !errors.Is(err, berth.ErrClosed):
				t.Errorf("closed %s.%s: %v, want ErrClosed", x.name, name, err)
			}
		})
	}
}

// A nil context and a nil function are refused, before anything is done; so is another nil
// argument, or it means nothing.
func TestCallsWithNil(t *testing.T) {
	for _, x := range theOpened {
		if x.open == nil {
			continue
		}
		v := reflect.ValueOf(x.open(t))
		eachMethod(v, func(name string, m reflect.Value) {
			for what, arg := range map[string]func(reflect.Type) reflect.Value{"context": noContext, "function": noFunction, "pointer": noPointer} {
				if !takes(m.Type(), what) {
					continue
				}
				err, fails := call(t, x.name+"."+name+" with a nil "+what, m, arg)
				if c, ok := v.Interface().(*berth.OpByOp); ok {
					c.Restart() // after Cancel
				}
				if fails && what != "pointer" && (!errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), what)) {
					t.Errorf("%s.%s with a nil %s: %v, want ErrOptions", x.name, name, what, err)
				}
			}
		})
		if err, _ := call(t, x.name+".Close", v.MethodByName("Close"), good); err != nil {
			t.Errorf("%s.Close after bad calls: %v", x.name, err)
		}
	}
}

// The functions of the package refuse a nil context.
func TestFunctionsWithNil(t *testing.T) {
	for name, f := range functions {
		v := reflect.ValueOf(f)
		if !takes(v.Type(), "context") {
			continue
		}
		err, fails := call(t, name, v, noContext)
		if fails && (!errors.Is(err, berth.ErrOptions) || !strings.Contains(err.Error(), "context")) {
			t.Errorf("%s without a context: %v", name, err)
		}
	}
	c := openOps(t)
	for what, f := range map[string]*eager.Function{"build": berth.Compile("mine", nil), "gradients": berth.Compile("mine", nil).Gradients(0), "nil": nil} {
		x := c.One(ops.Fill{Meta: shape.F32(2)})
		y := c.One(f, x)
		if err := y.Err(); !errors.Is(err, berth.ErrOptions) {
			t.Errorf("a function without %s: %v", what, err)
		}
	}
}

// eachMethod calls f with each exported method of a value.
func eachMethod(v reflect.Value, f func(name string, m reflect.Value)) {
	for i := range v.NumMethod() {
		if name := v.Type().Method(i).Name; name != "Close" {
			f(name, v.Method(i))
		}
	}
	if m := v.MethodByName("Close"); m.IsValid() {
		f("Close", m)
	}
}

// call calls a function, and gives its error: a result that is one, or that of a tensor. A panic
// is the test's.
func call(t *testing.T, what string, f reflect.Value, arg func(reflect.Type) reflect.Value) (err error, fails bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s panics: %v", what, r)
			fails = false
		}
	}()
	var in []reflect.Value
	for i := range f.Type().NumIn() {
		if !f.Type().IsVariadic() || i < f.Type().NumIn()-1 {
			in = append(in, arg(f.Type().In(i)))
		}
	}
	for _, out := range slices.Backward(f.Call(in)) {
		switch x := out.Interface().(type) {
		case error:
			return x, true
		case eager.Tensor:
			return x.Err(), true
		case []eager.Tensor:
			if len(x) > 0 {
				return x[0].Err(), true
			}
		case *eager.Chain:
			return x.Err(), true
		}
		if out.Type() == reflect.TypeFor[error]() {
			return nil, true
		}
	}
	return nil, false
}

// takes reports whether a function has a parameter of a kind.
func takes(f reflect.Type, what string) bool {
	for in := range f.Ins() {
		switch {
		case in == reflect.TypeFor[context.Context]():
			if what == "context" {
				return true
			}
		case in.Kind() == reflect.Func:
			if what == "function" {
				return true
			}
		case what == "pointer" && (in.Kind() == reflect.Pointer || in.Kind() == reflect.Interface):
			return true
		}
	}
	return false
}

// good is an argument that is not nil.
func good(typ reflect.Type) reflect.Value {
	switch {
	case typ == reflect.TypeFor[context.Context]():
		return reflect.ValueOf(context.Background())
	case typ == reflect.TypeFor[graph.Op]():
		return reflect.ValueOf(ops.Fill{Meta: shape.F32(1)})
	case typ == reflect.TypeFor[*tensor.Dense]():
		return reflect.ValueOf(tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{1})))
	case typ == reflect.TypeFor[*graph.Builder]():
		return reflect.ValueOf(graph.NewBuilder("test", 1))
	case typ.Kind() == reflect.Func:
		return reflect.MakeFunc(typ, func([]reflect.Value) (out []reflect.Value) {
			for o := range typ.Outs() {
				out = append(out, reflect.Zero(o))
			}
			return out
		})
	}
	return reflect.Zero(typ)
}

// noContext is a nil context, or another good argument; noFunction and noPointer likewise.
func noContext(typ reflect.Type) reflect.Value {
	if typ == reflect.TypeFor[context.Context]() {
		return reflect.Zero(typ)
	}
	return good(typ)
}

func noFunction(typ reflect.Type) reflect.Value {
	if typ.Kind() == reflect.Func {
		return reflect.Zero(typ)
	}
	return good(typ)
}

func noPointer(typ reflect.Type) reflect.Value {
	if typ != reflect.TypeFor[context.Context]() && (typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Interface) {
		return reflect.Zero(typ)
	}
	return good(typ)
}

// openTrained trains a model for a step, and opens it.
func openTrained(t *testing.T) *berth.Trained {
	t.Helper()
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	m, err := berth.OpenTrained(t.Context(), runtest.Parsed(t, runtest.Everything), berth.Weights{Dir: dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func startTraining(t *testing.T) *berth.Training {
	t.Helper()
	x, err := runtest.Open(t, runtest.Everything).Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func serve(t *testing.T) *berth.Service {
	t.Helper()
	s, err := openTrained(t).Serve(t.Context(), berth.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openOps(t *testing.T) *berth.OpByOp {
	t.Helper()
	d, err := berth.OpenDevices(configs.Devices{Use: "cpu"}, berth.DevicesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.OpByOp(eager.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}
