package configs

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// TestDevicesLiteral fills in the defaults of a literal, and refuses mistakes.
func TestDevicesLiteral(t *testing.T) {
	config := parse(t, smallOn("cpu:2"), Overlay{})
	whole := withoutPos(config).Devices
	if got := (Devices{Use: "cpu:2"}).WithDefaults(); !reflect.DeepEqual(got, whole) {
		t.Errorf("defaults %+v, of a file %+v", got, whole)
	}
	config.Devices = Devices{Use: "cpu:2"}
	text, err := config.YAML()
	if err = errors.Join(err, config.Check(), config.Devices.Check()); err != nil {
		t.Fatal(err)
	}
	if got := withoutPos(parse(t, string(text), Overlay{})).Devices; !reflect.DeepEqual(got, whole) {
		t.Errorf("came back as %+v, expected %+v", got, whole)
	}
	each := Devices{Each: []DeviceEntry{{Use: "cpu"}}, Timeout: NoTimeout, OnLoss: OnLossReplan}
	if got := each.WithDefaults(); got.Use != "" || got.Timeout != NoTimeout || got.OnLoss != OnLossReplan || each.Check() != nil {
		t.Errorf("a list became %+v; %v", got, each.Check())
	}
	for key, bad := range map[string]Devices{
		"devices.use": {Use: "cpu:2", Each: each.Each}, "devices.on_device_loss": {OnLoss: "wait"}, "devices.op_by_op": {OpByOp: "on"},
		"devices.memory": {Memory: Memory{Bytes: 1}}, "devices.spill_dir": {SpillDir: "x"},
	} {
		if err := bad.Check(); !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), key+": ") {
			t.Errorf("%+v: %v, expected a mistake of %s", bad, err, key)
		}
	}
}
