package metrics

// Kind is the kind of a model's answers.
type Kind uint8

// The kinds of answers.
const (
	Classes Kind = iota + 1 // each target is one of some classes
	Bits                    // each number of a target is 0 or 1, with loss bce
	Numbers                 // targets are numbers
)

// Task describes the answers that are judged. Zero fields are not known yet.
type Task struct {
	Kind    Kind
	Classes int   // Classes: those that the model tells apart
	Outputs int   // Bits, Numbers: numbers in a sample's target
	Answers int64 // over all samples: positions of a sequence and numbers of a target count each
	Right   bool  // each answer is right or wrong: there is an accuracy
	Text    bool  // the classes are the tokens of a text
	First   bool  // of two classes, the first is the positive one, and not the second
	// Scaling is of the targets. Nil: the model gives numbers as the data has them.
	Scaling *Scaling
}

// Scaling is by output of Numbers: a number of the data is Mean + Std times the model's.
type Scaling struct{ Mean, Std []float64 }

// Unit is the model's 1 in the unit of output i of the data.
func (t Task) Unit(i int) float64 {
	if t.Scaling == nil {
		return 1
	}
	return t.Scaling.Std[i%len(t.Scaling.Std)]
}

// Binary reports whether there are two answers, of which one is positive.
func (t Task) Binary() bool {
	return t.Kind == Classes && t.Classes == 2 && !t.Text || t.Kind == Bits && t.Outputs == 1
}

// Positive is the class of a binary task that is positive: with Bits, the answer 1.
func (t Task) Positive() int {
	if t.First {
		return 0
	}
	return 1
}

// classes is the number of classes that have metrics of their own: with Bits, the
// outputs.
func (t Task) classes() int {
	if t.Kind == Bits {
		return t.Outputs
	}
	return t.Classes
}

// MaxScores is the most scores that metrics are computed from.
const MaxScores = 100_000_000

// quickScores is the most scores for which `all` includes metrics that need them.
const quickScores = 10_000_000

// scores is the number of scores of a task: with two classes, one for each answer.
func (t Task) scores() int64 {
	if t.Kind == Classes && t.Classes > 2 {
		return t.Answers * int64(t.Classes)
	}
	return t.Answers
}
