package ops

import "fmt"

// Kernels check whole numbers as they run. The errors are here so that those of all
// devices agree.

// CheckIDs finds the first id that is no row of a table.
func CheckIDs(ids []int32, rows int) error {
	if i := outside(ids, rows); i >= 0 {
		return fmt.Errorf("token %d at position %d is outside the vocabulary of %d: ids are rows of the table; in a model, check the dataset's tokenizer against its vocabulary", ids[i], i, rows)
	}
	return nil
}

// CheckTargets finds the first target that is no class.
func CheckTargets(targets []int32, classes int) error {
	if i := outside(targets, classes); i >= 0 {
		return BadTarget(targets[i], i, classes)
	}
	return nil
}

// CheckPaddedTargets is CheckTargets where a target of -1 is padding.
func CheckPaddedTargets(targets []int32, classes int) error {
	for i, t := range targets {
		if t < -1 || int(t) >= classes {
			return BadTarget(t, i, classes)
		}
	}
	return nil
}

// BadTarget is the error about a target that is no class.
func BadTarget(target int32, position, classes int) error {
	return fmt.Errorf("target %d at position %d is outside the %d classes: check the labels of the dataset against the model's last layer", target, position, classes)
}

// CheckCounted finds the first index that is none of n counts.
func CheckCounted(indexes []int32, n int) error {
	if i := outside(indexes, n); i >= 0 {
		return fmt.Errorf("index %d at position %d is not from 0 to below %d, the number of counts", indexes[i], i, n)
	}
	return nil
}

// CheckPaddedCounted is CheckCounted where an index of -1 is padding.
func CheckPaddedCounted(indexes []int32, n int) error {
	for i, x := range indexes {
		if x < -1 || int(x) >= n {
			return fmt.Errorf("index %d at position %d is not from 0 to below %d, the number of counts", x, i, n)
		}
	}
	return nil
}

// CheckPooled finds the first index, of [MaxPool2D], that is outside a plane of n elements.
func CheckPooled(indexes []int32, n int) error {
	if i := outside(indexes, n); i >= 0 {
		return fmt.Errorf("index %d at position %d is outside its plane of %d elements: pass the idx that max_pool2d gave", indexes[i], i, n)
	}
	return nil
}

// outside is the position of the first number that is not in [0, n); -1 if there is none.
func outside(numbers []int32, n int) int {
	for i, x := range numbers {
		if x < 0 || int(x) >= n {
			return i
		}
	}
	return -1
}
