package metrics

import (
	"math"
	"slices"
)

// Scores keep, for each answer and class, the probability from 0 to 1 that the model gives
// the class, and whether the class is the true one. With two classes, the second is enough.
type Scores struct {
	task   Task
	lists  [][]uint32 // by class, or the second of two: score's bits << 1, and 1 if it is the truth
	sorted []bool     // by list
}

// NewScores has room for the scores of a task.
func NewScores(t Task) *Scores {
	n := t.classes()
	if t.Kind == Classes && n == 2 {
		n = 1
	}
	s := &Scores{task: t, lists: make([][]uint32, n), sorted: make([]bool, n)}
	room := t.Answers
	if t.Kind == Bits {
		room /= int64(n)
	}
	for k := range s.lists {
		s.lists[k] = make([]uint32, 0, room)
	}
	return s
}

// ScoreBytes is the host memory of the scores of a task.
func ScoreBytes(t Task) int64 { return 4 * t.scores() }

// Reset forgets the scores.
func (s *Scores) Reset() {
	for k := range s.lists {
		s.lists[k], s.sorted[k] = s.lists[k][:0], false
	}
}

// Add adds the scores of a batch: the probabilities that the model gives, and the cells
// that [Cells] gives.
func (s *Scores) Add(probabilities []float32, cells []int32) {
	n := s.task.classes()
	for i, cell := range cells {
		if s.task.Kind == Bits {
			s.add(i%n, probabilities[i], cell>>1&1 == 1)
			continue
		}
		if cell < 0 { // padding
			continue
		}
		truth := int(cell) / n
		if n == 2 {
			s.add(0, probabilities[2*i+1], truth == 1)
			continue
		}
		for k := range n {
			s.add(k, probabilities[n*i+k], truth == k)
		}
	}
}

// add adds one score. Those of numbers from 0 on order as their bits do, and have no
// sign.
func (s *Scores) add(list int, score float32, truth bool) {
	key := math.Float32bits(score) << 1
	if truth {
		key |= 1
	}
	s.lists[list] = append(s.lists[list], key)
}

// class is the ranking of a class.
func (s *Scores) class(n int) ranking {
	if s.task.Kind == Bits || s.task.Classes > 2 {
		return s.ranking(n)
	}
	r := s.ranking(0)
	r.first = n == 0
	return r
}

// ranking is the ranking of a list, which it sorts.
func (s *Scores) ranking(list int) ranking {
	keys := s.lists[list]
	if !s.sorted[list] {
		slices.Sort(keys)
		s.sorted[list] = true
	}
	return ranking{keys: keys}
}

// ranking is the scores of a class, sorted.
type ranking struct {
	keys  []uint32
	first bool // it is about the first of two classes: the keys are of the second
}

// groups gives the numbers of answers with equal scores, the highest score first: of
// those that are true, and of the others.
func (r ranking) groups(yield func(truths, others float64) bool) {
	for n, at := len(r.keys), 0; at < n; {
		truths, others := 0.0, 0.0
		for group := r.key(at) >> 1; at < n && r.key(at)>>1 == group; at++ {
			if r.key(at)&1 == 1 {
				truths++
			} else {
				others++
			}
		}
		if r.first {
			truths, others = others, truths
		}
		if !yield(truths, others) {
			return
		}
	}
}

// key is key i, counted from the highest score of the class.
func (r ranking) key(i int) uint32 {
	if r.first {
		return r.keys[i]
	}
	return r.keys[len(r.keys)-1-i]
}

// total is the number of answers that are true, and of the others.
func (r ranking) total() (truths, others float64) {
	for t, o := range r.groups {
		truths, others = truths+t, others+o
	}
	return truths, others
}

// auc is the share of pairs of a true answer and another one in which the true one has
// the higher score; equals count half. NaN without such pairs.
func (r ranking) auc() float64 {
	truths, others := r.total()
	won, below := 0.0, others
	for t, o := range r.groups {
		below -= o
		won += t * (below + o/2)
	}
	return won / (truths * others)
}

// averagePrecision is the mean, over the true answers, of the precision among all
// answers with scores as high or higher. NaN without true answers.
func (r ranking) averagePrecision() float64 {
	truths, _ := r.total()
	sum, found, seen := 0.0, 0.0, 0.0
	for t, o := range r.groups {
		found, seen = found+t, seen+t+o
		sum += t * found / seen
	}
	return sum / truths
}
